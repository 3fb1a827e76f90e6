// Factors and solutions against their definitions, computed in double.
#include "linalg/factor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "support/random_floats.h"

namespace tandem::factor_test {

using test::random_floats;

// A Gram matrix of correlated columns, with something on the diagonal.
std::vector<float> definite(int64_t n, ThreadPool& pool) {
  std::vector<float> x = random_floats(2 * n * n, static_cast<unsigned>(n));
  for (int64_t t = 0; t < 2 * n; ++t) {
    for (int64_t i = 1; i < n; ++i) x[t * n + i] += 0.8f * x[t * n + i - 1];
  }
  std::vector<float> h(static_cast<size_t>(n * n));
  add_gram({x.data(), 2 * n, n}, {h.data(), n, n}, pool);
  mirror_upper({h.data(), n, n}, pool);
  for (int64_t i = 0; i < n; ++i) h[i * n + i] += 0.01f * static_cast<float>(n);
  return h;
}

constexpr int64_t kSizes[] = {1, 2, 17, 127, 128, 129, 200, 300};

TEST(Factor, TimesItsTransposeIsTheMatrix) {
  ThreadPool pool(2);
  for (const int64_t n : kSizes) {
    const std::vector<float> h = definite(n, pool);
    std::vector<float> r = h;
    for (int64_t i = 0; i < n; ++i) std::fill_n(r.data() + i * n, i, std::numeric_limits<float>::quiet_NaN());
    ASSERT_EQ(factor_upper({r.data(), n, n}, pool), -1);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i; j < n; ++j) {
        double sum = 0.0;
        for (int64_t l = j; l < n; ++l) sum += double{r[i * n + l]} * double{r[j * n + l]};
        ASSERT_NEAR(sum, h[i * n + j], 2e-6 * std::sqrt(double{h[i * n + i]} * double{h[j * n + j]})) << n << " " << i;
      }
    }
  }
}

TEST(Factor, SolvesForManyRows) {
  ThreadPool pool(2);
  for (const int64_t n : kSizes) {
    for (const int64_t rows : {int64_t{1}, int64_t{45}}) {
      const std::vector<float> h = definite(n, pool), g = random_floats(rows * n, 9);
      std::vector<float> r = h, y = g;
      ASSERT_EQ(factor_upper({r.data(), n, n}, pool), -1);
      for (int64_t i = 0; i < n; ++i) std::fill_n(r.data() + i * n, i, std::numeric_limits<float>::quiet_NaN());
      solve_upper({r.data(), n, n}, {y.data(), rows, n}, pool);
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0.0, size = 0.0;
          for (int64_t l = 0; l < n; ++l) {
            sum += double{y[row * n + l]} * double{h[l * n + j]};
            size += std::abs(double{y[row * n + l]} * double{h[l * n + j]});
          }
          ASSERT_NEAR(sum, g[row * n + j], 1e-5 * (1.0 + size)) << n << " " << row << " " << j;
        }
      }
    }
  }
}

TEST(Factor, HasTheSameBitsForAnyNumberOfThreads) {
  ThreadPool one(1), two(2), five(5);
  const int64_t n = 391, rows = 70;
  const std::vector<float> h = definite(n, one), g = random_floats(rows * n, 9);
  std::vector<float> first_r, first_y;
  for (ThreadPool* pool : {&one, &two, &five}) {
    std::vector<float> r = h, y = g;
    ASSERT_EQ(factor_upper({r.data(), n, n}, *pool), -1);
    solve_upper({r.data(), n, n}, {y.data(), rows, n}, *pool);
    for (int64_t i = 0; i < n; ++i) std::fill_n(r.data() + i * n, i, 0.0f);  // Unspecified.
    if (first_r.empty()) {
      first_r = r;
      first_y = y;
    }
    EXPECT_EQ(r, first_r);
    EXPECT_EQ(y, first_y);
  }
}

TEST(Factor, ReportsTheRowThatIsNotPositiveDefinite) {
  ThreadPool pool(2);
  const int64_t n = 300;
  for (const int64_t bad : {int64_t{0}, int64_t{150}, int64_t{299}}) {
    for (const float value : {-1.0f, 0.0f, std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> h(static_cast<size_t>(n * n));
      for (int64_t i = 0; i < n; ++i) h[i * n + i] = i == bad ? value : 1.0f;
      EXPECT_EQ(factor_upper({h.data(), n, n}, pool), bad);
    }
  }
}

}  // namespace tandem::factor_test
