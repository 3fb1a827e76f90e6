// Two models side by side: logits, greedy tokens and layers. Two files with 8-bit and 16-bit keys and values stand for
// a reference and a device that is slightly off.
#include <gtest/gtest.h>

#include <cmath>

#include "eval/npu_file.h"
#include "eval/phases.h"

namespace tandem {
namespace compare_test {

using test::TempFolder;

class Compare : public testing::Test {
 protected:
  void SetUp() override {
    exact_ = test::open_qdq(test::write_npu_file(folder_, "u16.tdm", {.kv = KvFormat::kU16}).path);
    coarse_ = test::open_qdq(test::write_npu_file(folder_, "u8.tdm", {.kv = KvFormat::kU8}).path);
    same_ = test::open_qdq(folder_ / "u8.tdm");
    ASSERT_TRUE(exact_ != nullptr && coarse_ != nullptr && same_ != nullptr);
  }

  TempFolder folder_;
  std::unique_ptr<TestedModel> exact_, coarse_, same_;
};

TEST_F(Compare, RowsOfBothModelsComeInPairs) {
  const std::vector<int32_t> tokens = test::some_tokens(21);
  std::vector<float> wanted, got;
  size_t next = 0;
  Sqnr sqnr;
  const Status status =
      score_side_by_side(*exact_, *coarse_, tokens, [&](size_t i, std::span<const float> a, std::span<const float> b) {
        EXPECT_EQ(i, next++);
        wanted.insert(wanted.end(), a.begin(), a.end());
        got.insert(got.end(), b.begin(), b.end());
        sqnr.add(a, b);
        return ok_status();
      });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(next, tokens.size());
  // The same as each model alone, all at once.
  EXPECT_EQ(wanted, test::score_rows(*exact_, tokens));
  EXPECT_EQ(got, test::score_rows(*coarse_, tokens));
  EXPECT_NEAR(sqnr.db(), test::sqnr_db(wanted, got), 1e-9);
  EXPECT_GT(sqnr.db(), 15.0);
  EXPECT_LT(sqnr.db(), 80.0);
}

TEST_F(Compare, AModelAgreesWithItsOwnGreedyTokens) {
  const std::vector<int32_t> prompt = test::some_tokens(11);
  const auto agreement = compare_greedy(*coarse_, *same_, prompt, 12);
  ASSERT_TRUE(agreement.ok()) << agreement.error().message;
  EXPECT_EQ(agreement->steps, 12);
  EXPECT_EQ(agreement->equal, 12);
  EXPECT_EQ(agreement->noise, 0.0);
  EXPECT_TRUE(agreement->divergences.empty());
}

// Checked against logits that were computed independently.
TEST_F(Compare, DivergencesReportGapAndNoise) {
  const std::vector<int32_t> prompt = test::some_tokens(11);
  constexpr int64_t kSteps = 54;  // To the end of the context.
  const auto agreement = compare_greedy(*exact_, *coarse_, prompt, 1000);
  ASSERT_TRUE(agreement.ok()) << agreement.error().message;
  ASSERT_EQ(agreement->steps, kSteps);
  EXPECT_EQ(agreement->equal + static_cast<int64_t>(agreement->divergences.size()), kSteps);

  std::vector<int32_t> tokens = prompt;
  double squares = 0.0;
  size_t divergences = 0;
  const auto width = static_cast<size_t>(exact_->vocab_size());
  for (int64_t step = 0; step < kSteps; ++step) {
    std::vector<float> rows[2] = {test::score_rows(*exact_, tokens), test::score_rows(*coarse_, tokens)};
    for (auto& row : rows) row.erase(row.begin(), row.end() - static_cast<std::ptrdiff_t>(width));
    double sum = 0.0, most = 0.0;
    for (size_t i = 0; i < width; ++i) {
      const double difference = std::abs(static_cast<double>(rows[1][i]) - rows[0][i]);
      sum += difference * difference;
      most = std::max(most, difference);
    }
    squares += sum;
    const auto best = [](const std::vector<float>& row) {
      return static_cast<int32_t>(std::ranges::max_element(row) - row.begin());
    };
    if (best(rows[0]) != best(rows[1])) {
      ASSERT_LT(divergences, agreement->divergences.size());
      const Divergence& p = agreement->divergences[divergences++];
      EXPECT_EQ(p.step, step);
      EXPECT_EQ(p.wanted_token, best(rows[0]));
      EXPECT_EQ(p.got_token, best(rows[1]));
      auto sorted = rows[0];
      std::ranges::sort(sorted, std::greater<>());
      EXPECT_NEAR(p.gap, sorted[0] - sorted[1], 0.1 * p.noise);
      EXPECT_NEAR(p.noise, std::sqrt(sum / static_cast<double>(width)), 0.1 * p.noise);
      EXPECT_NEAR(p.largest_noise, most, 0.2 * p.noise);
      EXPECT_LE(p.gap, 2.0 * p.largest_noise);
    }
    tokens.push_back(best(rows[0]));
  }
  EXPECT_EQ(divergences, agreement->divergences.size());
  EXPECT_NEAR(agreement->noise, std::sqrt(squares / static_cast<double>(width * kSteps)), 0.05 * agreement->noise);
}

TEST_F(Compare, AModelsLayersEqualThemselves) {
  const auto layers = compare_layers(*coarse_, *same_, test::some_tokens(19));
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  ASSERT_EQ(layers->size(), 2u);
  for (const LayerSqnr& layer : *layers) {
    ASSERT_TRUE(layer.hidden.has_value());
    EXPECT_EQ(layer.hidden->count, 19 * 64);
    EXPECT_EQ(layer.keys.count, 19 * 2 * 32);
    EXPECT_EQ(layer.values.count, 19 * 2 * 32);
    EXPECT_EQ(layer.hidden->db(), INFINITY);
    EXPECT_EQ(layer.keys.db(), INFINITY);
    EXPECT_EQ(layer.values.db(), INFINITY);
    EXPECT_GT(layer.hidden->signal, 0.0);
  }
}

// Keys and values are rounded to 8 bits: some 40 dB at once; hidden states suffer less.
TEST_F(Compare, LayersShowTheNoise) {
  const auto layers = compare_layers(*exact_, *coarse_, test::some_tokens(19));
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  ASSERT_EQ(layers->size(), 2u);
  for (const LayerSqnr& layer : *layers) {
    EXPECT_GT(layer.keys.db(), 20.0);
    EXPECT_LT(layer.keys.db(), 60.0);
    EXPECT_GT(layer.hidden->db(), layer.keys.db() - 10.0);
  }
  const auto list = layer_sqnr_list(*layers);
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[0].first, "layer 0");
  EXPECT_EQ(list[4].first, "layer 1 keys");
  EXPECT_EQ(list[4].second, (*layers)[1].keys.db());
  // The observers are removed along with what they refer to.
  test::score_rows(*exact_, test::some_tokens(9));
}

// Each head's rows in outputs of their own, and no trace.
TEST_F(Compare, ComparesLayersWithSplitHeads) {
  const auto file =
      test::write_npu_file(folder_, "sha.tdm", {.attention = *parse_attention_form("sha+k"), .trace = false});
  const auto a = test::open_qdq(file.path), b = test::open_qdq(file.path);
  const auto layers = compare_layers(*a, *b, test::some_tokens(10));
  ASSERT_TRUE(layers.ok()) << layers.error().message;
  ASSERT_EQ(layers->size(), 2u);
  EXPECT_FALSE((*layers)[0].hidden.has_value());
  EXPECT_EQ((*layers)[0].keys.count, 10 * 2 * 32);
  const auto mixed = compare_layers(*coarse_, *a, test::some_tokens(10));
  ASSERT_FALSE(mixed.ok());
  EXPECT_NE(mixed.error().message.find("phases of one file"), std::string::npos) << mixed.error().message;
}

// CPU methods write to the cache themselves.
TEST(CompareCpu, LayersAreRefused) {
  const auto path = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "w8", .prefill = {8}});
  const auto a = test::open_qdq(path), b = test::open_qdq(path);
  const auto layers = compare_layers(*a, *b, test::some_tokens(10));
  ASSERT_FALSE(layers.ok());
  EXPECT_NE(layers.error().message.find("NPU"), std::string::npos) << layers.error().message;
}

TEST(SqnrSums, KnownValues) {
  Sqnr sqnr;
  EXPECT_TRUE(std::isnan(sqnr.db()));
  sqnr.add(std::vector<float>{3.0f, 4.0f}, std::vector<float>{3.0f, 4.0f});
  EXPECT_EQ(sqnr.db(), INFINITY);
  sqnr.add(std::vector<float>{5.0f}, std::vector<float>{5.5f});
  EXPECT_NEAR(sqnr.db(), 10.0 * std::log10(50.0 / 0.25), 1e-12);
  sqnr.add(std::vector<float>{1.0f}, std::vector<float>{NAN});
  EXPECT_TRUE(std::isnan(sqnr.db()));
}

}  // namespace compare_test
}  // namespace tandem
