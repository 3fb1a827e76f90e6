#include "reference/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace tandem::softmax_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST(ExpRow, IsWithinTwoUnitsInTheLastPlaceOfExp) {
  std::vector<float> row;
  for (float x = -86.9f; x <= 0.0f; x += 0.0007f) row.push_back(x + 3.0f);
  row.push_back(3.0f);
  const std::vector<float> given = row;
  double expected_sum = 0.0;
  const double sum = exp_row(row.data(), static_cast<int64_t>(row.size()), 3.0f);
  for (size_t i = 0; i < row.size(); ++i) {
    const double expected = std::exp(double{given[i] - 3.0f});
    ASSERT_NEAR(row[i], expected, 2.0 * 0x1p-23 * expected) << given[i];
    expected_sum += expected;
  }
  EXPECT_NEAR(sum, expected_sum, 1e-5 * expected_sum);
}

TEST(ExpRow, MasksAreZeroAndNanShows) {
  for (const size_t count : {size_t{5}, size_t{40}}) {
    std::vector<float> row(count, -kInfinity);
    row[3] = 2.0f;
    EXPECT_EQ(exp_row(row.data(), static_cast<int64_t>(count), 2.0f), 1.0);
    for (size_t i = 0; i < count; ++i) EXPECT_EQ(row[i], i == 3 ? 1.0f : 0.0f);
    row[1] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(exp_row(row.data(), static_cast<int64_t>(count), 2.0f)));
    EXPECT_TRUE(std::isnan(row[1]));
  }
}

}  // namespace tandem::softmax_test
