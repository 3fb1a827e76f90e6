#include "compiler/tuning/bit_budget.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem {
namespace bit_budget_test {

constexpr WeightSpec k64 = {WeightFormat::kLpbq4, 64}, k32 = {WeightFormat::kLpbq4, 32},
                     k16 = {WeightFormat::kLpbq4, 16}, k8 = {WeightFormat::kI8, 0};

TEST(BitBudget, SpendsWhereItGainsMost) {
  const std::vector<BudgetItem> items = {{"a", 100, {{k64, 1.2}, {k32, 1.0}, {k16, 0.8}, {k8, 0.01}}},
                                         {"b", 100, {{k64, 120}, {k32, 100}, {k16, 80}, {k8, 1}}}};
  const auto cheap = allocate_bits(items, 4.125);
  ASSERT_TRUE(cheap.ok());
  EXPECT_EQ(cheap->specs, (std::vector<WeightSpec>{k64, k64}));
  const auto some = allocate_bits(items, 4.32);
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->specs, (std::vector<WeightSpec>{k64, k16}));
  EXPECT_LE(some->bits, 4.32);
  const auto most = allocate_bits(items, 8.0);
  ASSERT_TRUE(most.ok());
  EXPECT_EQ(most->specs, (std::vector<WeightSpec>{k8, k8}));
}

TEST(BitBudget, SaysWhatIsPossible) {
  const std::vector<BudgetItem> items = {{"a", 10, {{k32, 1.0}, {k8, 0.1}}}};
  for (const double bits : {3.0, 4.2, 8.5}) {
    const auto refused = allocate_bits(items, bits);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find("4.250 to 8.000"), std::string::npos) << refused.error().message;
  }
  EXPECT_FALSE(allocate_bits({}, 5.0).ok());
}

// Against all combinations of three items: never worse than the best by more than the last purchase, and within budget.
TEST(BitBudget, IsNearlyOptimal) {
  std::mt19937 generator(4);
  std::uniform_real_distribution<double> uniform(0.1, 1.0);
  const WeightSpec specs[] = {k64, k32, k16, k8};
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<BudgetItem> items;
    for (int i = 0; i < 3; ++i) {
      BudgetItem item{"x", 50 + 50 * (trial % 3) * i, {}};
      double loss = 10.0 * uniform(generator);
      for (const WeightSpec& spec : specs) item.choices.push_back({spec, loss *= uniform(generator)});
      items.push_back(item);
    }
    const auto got = allocate_bits(items, 4.8);
    ASSERT_TRUE(got.ok());
    EXPECT_LE(got->bits, 4.8 + 1e-9);
    double best = 1e9, largest_step = 0.0;
    double weights = 0.0;
    for (const BudgetItem& item : items) {
      weights += static_cast<double>(item.weights);
      largest_step = std::max(largest_step, item.choices.front().loss - item.choices.back().loss);
    }
    for (int code = 0; code < 64; ++code) {
      double bits = 0.0, loss = 0.0;
      for (size_t i = 0; i < 3; ++i) {
        const auto& choice = items[i].choices[static_cast<size_t>(code >> (2 * i) & 3)];
        bits += bits_per_weight(choice.spec) * static_cast<double>(items[i].weights);
        loss += choice.loss;
      }
      if (bits <= 4.8 * weights + 1e-6) best = std::min(best, loss);
    }
    EXPECT_LE(got->loss, best + largest_step);
  }
}

}  // namespace bit_budget_test
}  // namespace tandem
