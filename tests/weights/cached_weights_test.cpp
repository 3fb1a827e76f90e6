// Cached weights equal those of their source, and the limit holds.
#include "weights/cached_weights.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"

namespace tandem {
namespace cached_weights_test {

constexpr int64_t kRows = 100, kCols = 7;  // Three blocks and a short one.

// Numbers that encode where they are from.
class CountingWeights final : public WeightProvider {
 public:
  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    rows_read += rows;
    if (row_begin <= broken_row && broken_row < row_begin + rows) return corrupt("row {} is broken", broken_row);
    for (int64_t i = 0; i < rows * kCols; ++i) {
      out[i] = static_cast<float>(row_begin * kCols + i) + (name == "b" ? 0.5f : 0.0f);
    }
    return ok_status();
  }
  Result<std::vector<float>> read_vector(std::string_view) const override { return std::vector<float>{1.0f, 2.0f}; }

  mutable std::atomic<int64_t> rows_read{0};
  int64_t broken_row = -1;
};

const WeightShape kShapes[] = {{"a", kRows, kCols}, {"b", kRows, kCols}};

void expect_equal(const WeightProvider& wanted, const WeightProvider& got, std::string_view name, int64_t begin,
                  int64_t rows) {
  std::vector<float> a(static_cast<size_t>(rows * kCols), -1.0f), b(a.size(), -2.0f);
  ASSERT_TRUE(wanted.read_rows(name, begin, rows, a.data()).ok());
  ASSERT_TRUE(got.read_rows(name, begin, rows, b.data()).ok());
  EXPECT_EQ(a, b) << name << " " << begin << " " << rows;
}

TEST(CachedWeights, EqualTheSource) {
  const CountingWeights source, wanted;
  const CachedWeights cached(source, kShapes);
  for (int repeat = 0; repeat < 2; ++repeat) {
    for (const auto& [begin, rows] : {std::pair{0, 100}, {0, 32}, {31, 2}, {5, 70}, {96, 4}, {99, 1}, {40, 0}}) {
      expect_equal(wanted, cached, "a", begin, rows);
      expect_equal(wanted, cached, "b", begin, rows);
    }
  }
  EXPECT_EQ(source.rows_read, 2 * kRows);  // Each row once.
  EXPECT_EQ(cached.bytes_kept(), 2 * kRows * kCols * sizeof(float));
  EXPECT_EQ(*cached.read_vector("norm"), (std::vector<float>{1.0f, 2.0f}));
}

TEST(CachedWeights, PassThroughWhatDoesNotFit) {
  const CountingWeights source, wanted;
  const uint64_t block = 32 * kCols * sizeof(float);
  const CachedWeights cached(source, kShapes, 2 * block + block / 2);
  for (int repeat = 0; repeat < 3; ++repeat) expect_equal(wanted, cached, "a", 0, kRows);
  // Two whole blocks and the short one are cached; the 32 rows of the third block are read each time.
  EXPECT_EQ(cached.bytes_kept(), (32 + 32 + 4) * kCols * sizeof(float));
  EXPECT_EQ(source.rows_read, 68 + 3 * 32);
}

TEST(CachedWeights, ReportErrorsEveryTime) {
  CountingWeights source;
  source.broken_row = 40;
  const CachedWeights cached(source, kShapes);
  std::vector<float> rows(static_cast<size_t>(kRows * kCols));
  for (int repeat = 0; repeat < 2; ++repeat) {
    const Status status = cached.read_rows("a", 33, 1, rows.data());  // In the same block.
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("row 40 is broken"), std::string::npos);
  }
  EXPECT_TRUE(cached.read_rows("a", 0, 32, rows.data()).ok());
  EXPECT_FALSE(cached.read_rows("a", 90, 11, rows.data()).ok());
  EXPECT_FALSE(cached.read_rows("a", -1, 2, rows.data()).ok());
}

TEST(CachedWeights, ServeSeveralThreads) {
  const CountingWeights source, wanted;
  const CachedWeights cached(source, kShapes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t begin = 0; begin + 9 <= kRows; begin += 3) expect_equal(wanted, cached, "b", begin, 9);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(source.rows_read, kRows);
}

}  // namespace cached_weights_test
}  // namespace tandem
