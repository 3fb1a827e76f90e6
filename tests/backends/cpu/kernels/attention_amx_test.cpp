// Attention with AMX tiles against AVX-512 VNNI: integer sums are exact in both, so the bits are the same.
#include "backends/cpu/kernels/attention_test.h"

namespace tandem::cpu {
namespace attention_amx_test {

const KernelTable* find_table(std::string_view isa) {
  for (const KernelTable* table : available_kernels()) {
    if (table->isa == isa) return table;
  }
  return nullptr;
}

class AmxAttention : public testing::Test {
 protected:
  void SetUp() override {
    amx_ = find_table("amx");
    words_ = find_table("avx512vnni");
    if (amx_ == nullptr || words_ == nullptr) GTEST_SKIP() << "this CPU has no AMX: nothing to compare";
  }

  void expect_same(const Problem& p, const Cache& keys, const Cache& values, int round) {
    const std::vector<float> got = run(*amx_, p, keys, values, 0, p.tokens, p.slots);
    const std::vector<float> want = run(*words_, p, keys, values, 0, p.tokens, p.slots);
    ASSERT_EQ(0, std::memcmp(got.data(), want.data(), got.size() * sizeof(float)))
        << "round " << round << ": " << p.tokens << " tokens, group " << p.group << ", dim " << p.dim << ", " << p.slots
        << " slots of " << keys.count;
  }

  const KernelTable* amx_ = nullptr;
  const KernelTable* words_ = nullptr;
};

TEST_F(AmxAttention, MatchesWordProductsBitForBit) {
  Random random(41);
  const int64_t dims[] = {32, 64, 80, 128, 192, 256};
  for (int round = 0; round < 150; ++round) {
    // Caches that end with the slots in use, and longer ones.
    const int64_t dim = dims[random.integer(0, 5)], slots = random.integer(1, 300);
    const int64_t all = slots + (round % 2 == 0 ? 0 : random.integer(0, 70));
    const Cache keys(*amx_, Cache::kKeys, DType::kU8, all, dim, random),
        values(*amx_, Cache::kValues, DType::kU8, all, dim, random);
    // A third of the problems have few rows, close to the smallest number that tiles are used for.
    const int64_t most = round % 3 == 0 ? 8 : 130;
    Problem p = make_problem(random.integer(1, most), random.integer(1, 8), dim, slots, random);
    p.quantized = true;
    p.scale = round % 4 == 0 ? 0.3f : 1.0f / std::sqrt(static_cast<float>(dim));
    if (round % 3 == 1) p.softcap = 5.0f;
    if (round % 5 == 4) p.mask.clear();
    expect_same(p, keys, values, round);
    if (HasFatalFailure()) return;
  }
}

// The largest possible sums: all quantized queries, weights, keys and values at their extremes.
TEST_F(AmxAttention, IsExactAtTheLargestSums) {
  Random random(42);
  const int64_t slots = 64, dim = 256;
  Cache keys(*amx_, Cache::kKeys, DType::kU8, slots, dim, random),
      values(*amx_, Cache::kValues, DType::kU8, slots, dim, random);
  for (Cache* cache : {&keys, &values}) {
    std::fill(cache->data.begin(), cache->data.end(), uint8_t{255});
    for (size_t s = 0; s < cache->scales.size(); s += 2) {
      cache->scales[s] = 0.01f;
      cache->scales[s + 1] = -1.0f;
    }
  }
  Problem p = make_problem(20, 1, dim, slots, random);
  p.mask.clear();
  p.quantized = true;
  p.scale = 1e-3f;
  int sign = 1;
  for (float& x : p.q) x = static_cast<float>(sign);  // Quantized to 32512.
  expect_same(p, keys, values, 0);
  sign = -1;
  for (float& x : p.q) x = static_cast<float>(sign);
  expect_same(p, keys, values, 1);
  for (float& x : p.q) x = static_cast<float>(sign = -sign);
  expect_same(p, keys, values, 2);
}

// Constant rows and rows with NaN among others: both kernels break the same rows, and no other.
TEST_F(AmxAttention, NanStaysInItsRow) {
  Random random(43);
  const Cache keys(*amx_, Cache::kKeys, DType::kU8, 100, 64, random),
      values(*amx_, Cache::kValues, DType::kU8, 100, 64, random);
  Problem p = make_problem(37, 1, 64, 100, random);
  p.quantized = true;
  std::fill_n(p.q.begin() + 2 * p.q_stride, 64, 0.0f);
  p.q[static_cast<size_t>(17 * p.q_stride + 5)] = kNan;
  p.q[static_cast<size_t>(36 * p.q_stride + 63)] = kInf;
  const std::vector<float> got = run(*amx_, p, keys, values, 0, 37, 100);
  const std::vector<float> want = run(*words_, p, keys, values, 0, 37, 100);
  for (size_t i = 0; i < got.size(); ++i) {
    const bool broken = i / 64 == 17 || i / 64 == 36;
    ASSERT_EQ(std::isnan(got[i]), broken) << i;
    ASSERT_EQ(std::isnan(want[i]), broken) << i;
    if (broken) continue;
    ASSERT_EQ(got[i], want[i]) << i;
  }
}

}  // namespace attention_amx_test
}  // namespace tandem::cpu
