#include "numerics/hadamard.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace tandem {
namespace hadamard_test {

// The matrix, by rotating unit vectors.
std::vector<float> matrix_of(const Hadamard& rotation) {
  const auto n = static_cast<size_t>(rotation.size());
  std::vector<float> rows(n * n);
  for (size_t i = 0; i < n; ++i) rows[i * n + i] = 1.0f;
  rotation.rotate_rows(rows.data(), rotation.size());
  return rows;
}

void expect_orthogonal(const std::vector<float>& matrix, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i; j < n; ++j) {
      double dot = 0.0;
      for (size_t k = 0; k < n; ++k) dot += static_cast<double>(matrix[i * n + k]) * matrix[j * n + k];
      ASSERT_NEAR(dot, i == j ? 1.0 : 0.0, 1e-6) << "rows " << i << " and " << j << " of " << n;
    }
  }
}

// Orders of Paley's two constructions, products with powers of two, and the widths and head sizes of known models.
TEST(Hadamard, MatricesAreOrthogonalAndOfEqualMagnitudes) {
  for (const int64_t size : {1, 2, 4, 64, 128, 12, 20, 24, 28, 36, 60, 72, 80, 96, 200, 384, 576, 640, 896, 960}) {
    for (const bool signs : {false, true}) {
      const Hadamard rotation(size, signs);
      EXPECT_TRUE(rotation.is_whole()) << size;
      const std::vector<float> matrix = matrix_of(rotation);
      const double entry = 1.0 / std::sqrt(static_cast<double>(size));
      for (const float value : matrix) ASSERT_NEAR(std::abs(value), entry, 1e-6) << size;
      if (size <= 384) expect_orthogonal(matrix, static_cast<size_t>(size));
    }
  }
}

// Too large for the whole matrix: two rows of it, and the length of a vector.
TEST(Hadamard, LargeSizesAreWhole) {
  for (const int64_t size : {1024, 1152, 1536, 1600, 2048, 2304, 2560, 3072, 3584, 4096, 5120}) {
    const Hadamard rotation(size, true);
    EXPECT_TRUE(rotation.is_whole()) << size;
    std::vector<float> x(static_cast<size_t>(2 * size));
    x[3] = x[static_cast<size_t>(size) + 7] = 1.0f;
    rotation.rotate_rows(x.data(), 2);
    double dot = 0.0, length = 0.0;
    for (int64_t i = 0; i < size; ++i) {
      const double a = x[static_cast<size_t>(i)], b = x[static_cast<size_t>(size + i)];
      dot += a * b;
      length += a * a;
    }
    EXPECT_NEAR(dot, 0.0, 1e-6) << size;
    EXPECT_NEAR(length, 1.0, 1e-5) << size;
  }
}

TEST(Hadamard, SizesWithoutAMatrixHaveBlocks) {
  const Hadamard rotation(92 * 2, true);  // 92 is no order of Paley's for primes, nor is 184.
  EXPECT_FALSE(rotation.is_whole());
  expect_orthogonal(matrix_of(rotation), 184);
  EXPECT_FALSE(Hadamard(7, false).is_whole());
  EXPECT_EQ(matrix_of(Hadamard(3, false)), (std::vector<float>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
}

TEST(Hadamard, ColumnsAreRotatedAsRowsAre) {
  for (const int64_t size : {8, 12, 40, 184}) {
    const Hadamard rotation(size, true);
    constexpr int64_t kWidth = 70;  // More than a strip, and no multiple of it.
    std::vector<float> columns(static_cast<size_t>(size * kWidth)), rows(columns.size());
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t c = 0; c < kWidth; ++c) {
        const auto value = static_cast<float>((i * 31 + c * 17) % 23 - 11);
        columns[static_cast<size_t>(i * kWidth + c)] = rows[static_cast<size_t>(c * size + i)] = value;
      }
    }
    rotation.rotate_columns(columns.data(), kWidth);
    rotation.rotate_rows(rows.data(), kWidth);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t c = 0; c < kWidth; ++c) {
        ASSERT_EQ(columns[static_cast<size_t>(i * kWidth + c)], rows[static_cast<size_t>(c * size + i)]);
      }
    }
  }
}

TEST(Hadamard, SignsDifferBetweenRowsAndAreAlwaysTheSame) {
  const std::vector<float> plain = matrix_of(Hadamard(64, false)), signed_rows = matrix_of(Hadamard(64, true));
  int negated = 0;
  for (size_t row = 0; row < 64; ++row) {
    if (signed_rows[row * 64] != plain[row * 64]) ++negated;
  }
  EXPECT_GT(negated, 16);
  EXPECT_LT(negated, 48);
  EXPECT_EQ(signed_rows, matrix_of(Hadamard(64, true)));
}

}  // namespace hadamard_test
}  // namespace tandem
