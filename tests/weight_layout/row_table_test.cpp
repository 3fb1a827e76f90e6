// Tables of rows, and rescoring: products with single rows, and which logits are the largest.
#include "weight_layout/row_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "backends/cpu/kernels/kernel_test.h"

namespace tandem::cpu {
namespace row_table_test {

RowTable view(const PackedStorage& storage) {
  return {storage.rows, storage.cols, reinterpret_cast<const int8_t*>(storage.data.data()), storage.scales.data()};
}

TEST(RowTable, UnpackedRowsEqualDequantizedRows) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const int64_t rows = random.integer(1, 50), cols = random.integer(1, 300);
    const WeightMatrix matrix = make_matrix(WeightFormat::kI8, rows, cols, 0, Fill::kRandom, random);
    const PackedStorage packed = pack_row_table(matrix);
    const PackedSizes sizes = row_table_sizes(rows, cols);
    EXPECT_EQ(sizes.data, packed.data.size());
    EXPECT_EQ(sizes.scales, packed.scales.size() * sizeof(float));
    EXPECT_EQ(sizes.multipliers, 0u);
    std::vector<float> want(static_cast<size_t>(cols)), got(static_cast<size_t>(cols));
    for (int64_t row = 0; row < rows; ++row) {
      matrix.dequantize_row(row, want.data());
      unpack_row(view(packed), row, got.data());
      ASSERT_EQ(want, got);
    }
  }
}

// The longest rows allowed, with the largest numbers: no sum may overflow.
TEST(RowTable, ProductsEqualThoseOfDequantizedRows) {
  Random random(2);
  for (const int64_t cols : {int64_t{1}, int64_t{64}, int64_t{2560}, int64_t{kMaxQuantizedCols}}) {
    for (const Fill fill : {Fill::kRandom, Fill::kLowest}) {
      const WeightMatrix matrix = make_matrix(WeightFormat::kI8, 3, cols, 0, fill, random);
      const PackedStorage packed = pack_row_table(matrix);
      std::vector<float> x(static_cast<size_t>(cols)), row(static_cast<size_t>(cols));
      for (float& value : x) value = fill == Fill::kRandom ? random.normal() : -3.0f;
      RescoreInput input;
      input.set(x.data(), cols);
      for (int64_t r = 0; r < 3; ++r) {
        matrix.dequantize_row(r, row.data());
        double want = 0.0, size = 0.0;
        for (size_t i = 0; i < x.size(); ++i) {
          want += double{x[i]} * double{row[i]};
          size += std::abs(double{x[i]} * double{row[i]});
        }
        EXPECT_NEAR(multiply_row(view(packed), r, input), want, 1e-4 * size) << cols;
      }
    }
  }
}

TEST(RowTable, NonFiniteInputsGiveNan) {
  Random random(3);
  const PackedStorage packed = pack_row_table(make_matrix(WeightFormat::kI8, 1, 5, 0, Fill::kRandom, random));
  RescoreInput input;
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const float x[5] = {1.0f, bad, 0.0f, 0.0f, 0.0f};
    input.set(x, 5);
    EXPECT_TRUE(std::isnan(multiply_row(view(packed), 0, input)));
  }
  const float zeros[5] = {};
  input.set(zeros, 5);
  EXPECT_EQ(multiply_row(view(packed), 0, input), 0.0f);
}

TEST(FindLargest, MatchesSorting) {
  Random random(4);
  std::vector<uint64_t> scratch;
  for (int round = 0; round < 300; ++round) {
    const int64_t size = random.integer(1, round % 10 == 0 ? 20000 : 700), count = random.integer(1, size);
    // Few distinct values: most of them are ties.
    const int most = round % 3 == 0 ? 3 : 65535;
    std::vector<uint16_t> values(static_cast<size_t>(size));
    for (uint16_t& value : values) value = static_cast<uint16_t>(random.integer(0, most));
    std::vector<int32_t> want(static_cast<size_t>(size));
    std::iota(want.begin(), want.end(), 0);
    std::ranges::stable_sort(want, std::greater<>(), [&](int32_t i) { return values[static_cast<size_t>(i)]; });
    want.resize(static_cast<size_t>(count));
    std::vector<int32_t> got(static_cast<size_t>(count));
    find_largest(values.data(), size, count, scratch, got.data());
    std::ranges::sort(want);
    std::ranges::sort(got);
    ASSERT_EQ(want, got) << size << " " << count;
  }
}

}  // namespace row_table_test
}  // namespace tandem::cpu
