// Encodings from ranges, and the range of masked scores.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "backends/interface/io_conversion.h"
#include "quant/observer.h"
#include "quant/score_range.h"

namespace tandem {
namespace make_encoding_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

ir::Encoding encoding_of(DType dtype, float low, float high, bool symmetric = false) {
  const auto encoding = make_encoding(dtype, low, high, symmetric);
  EXPECT_TRUE(encoding.ok()) << encoding.error().message;
  return encoding.ok() ? *encoding : ir::Encoding{};
}

Observer observed(std::span<const float> values) {
  Observer observer("t");
  observer.add(values);
  return observer;
}

TEST(MakeEncoding, ZeroIsExactAndTheRangeIsCovered) {
  std::mt19937 random(12);
  std::uniform_real_distribution<float> exponent(-12.0f, 20.0f), share(-1.0f, 1.0f);
  for (int i = 0; i < 20'000; ++i) {
    const float size = std::exp2(exponent(random));
    float low = size * share(random), high = size * share(random);
    if (low > high) std::swap(low, high);
    for (const DType dtype : {DType::kU8, DType::kU16}) {
      for (const bool symmetric : {false, true}) {
        const ir::Encoding e = encoding_of(dtype, low, high, symmetric);
        ASSERT_EQ(e.kind, ir::EncodingKind::kPerTensor);
        ASSERT_TRUE(std::isnormal(e.scale) && e.scale > 0.0f);
        ASSERT_GE(e.zero_point, 0);
        ASSERT_LE(e.zero_point, dtype_max(dtype));
        if (symmetric) {
          ASSERT_EQ(e.zero_point, dtype == DType::kU8 ? 128 : 32768);
        }
        const Interval ends = encoded_range(dtype, e);
        const float half = 0.5f * e.scale * 1.0001f;
        ASSERT_LE(ends.low - half, std::min(low, 0.0f)) << low << " " << high;
        ASSERT_GE(ends.high + half, std::max(high, 0.0f)) << low << " " << high;
        // And not more than necessary.
        const double wanted = static_cast<double>(std::max(high, 0.0f)) - static_cast<double>(std::min(low, 0.0f));
        const double span = static_cast<double>(ends.high) - static_cast<double>(ends.low);
        if (!symmetric) {
          ASSERT_LE(span, std::max(wanted, kSmallestSpan) * 1.00001);
        }
        const float zero = 0.0f;
        uint16_t q = 0;
        float back = 1.0f;
        ir::encode_row(dtype, e, &zero, 1, &q);
        ir::decode_row(dtype, e, &q, 1, &back);
        ASSERT_EQ(back, 0.0f);
      }
    }
  }
}

TEST(MakeEncoding, SymmetricUsesTheLargerSide) {
  EXPECT_FLOAT_EQ(encoding_of(DType::kU8, -1.28f, 0.5f, true).scale, 0.01f);
  EXPECT_FLOAT_EQ(encoding_of(DType::kU8, -0.5f, 1.27f, true).scale, 0.01f);
  EXPECT_FLOAT_EQ(encoding_of(DType::kU16, -32.768f, 0.0f, true).scale, 0.001f);
}

TEST(MakeEncoding, DegenerateAndImpossibleRanges) {
  for (const DType dtype : {DType::kU8, DType::kU16}) {
    for (const bool symmetric : {false, true}) {
      for (const float value : {0.0f, 1e-30f, -1e-30f, 1e-45f, -1e-45f}) {
        const ir::Encoding e = encoding_of(dtype, value, value, symmetric);
        EXPECT_GT(e.scale, 1e-10f);
        EXPECT_LT(e.scale, 1e-5f);
      }
    }
  }
  for (const auto& [low, high] : {std::pair(1.0f, -1.0f), std::pair(kNaN, 1.0f), std::pair(0.0f, kNaN),
                                  std::pair(-kInfinity, 0.0f), std::pair(0.0f, kInfinity), std::pair(0.0f, 2e30f)}) {
    EXPECT_FALSE(make_encoding(DType::kU16, low, high, false).ok()) << low << " " << high;
  }
  EXPECT_FALSE(make_encoding(DType::kI8, -1.0f, 1.0f, false).ok());
  const Observer huge = observed(std::vector<float>{1e38f});
  EXPECT_FALSE(huge.choose_range({.method = RangeMethod::kMse}).ok());
}

TEST(RangeMethod, Names) {
  for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kMse}) {
    const auto parsed = parse_range_method(range_method_name(method));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, method);
  }
  const auto wrong = parse_range_method("entropy");
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("percentile"), std::string::npos);
}

TEST(ScoreRange, MaskedScoresLoseTheirWeight) {
  std::mt19937 random(13);
  std::normal_distribution<float> normal;
  const float factor = 0.125f;
  RowMaxObserver observer("layers.0.attention.masked");
  std::vector<std::vector<float>> rows;
  float lowest = kInfinity, highest = -kInfinity;
  for (int r = 0; r < 200; ++r) {
    std::vector<float> row(1 + static_cast<size_t>(r));
    for (float& x : row) x = 10.0f * normal(random) - 5.0f;
    const float most = *std::max_element(row.begin(), row.end());
    lowest = std::min(lowest, most);
    highest = std::max(highest, most);
    observer.add_row(row);
    observer.add_row({});
    rows.push_back(std::move(row));
  }
  EXPECT_EQ(observer.rows(), 200u);
  EXPECT_EQ(observer.lowest_row_max(), lowest);
  EXPECT_EQ(observer.highest(), highest);
  const auto range = observer.range(factor);
  ASSERT_TRUE(range.ok()) << range.error().message;
  EXPECT_FLOAT_EQ(range->low, lowest - 160.0f);
  EXPECT_EQ(range->high, highest);
  // Softmax with a thousand masked slots at the lowest value, and with none, differ by less than half a 16-bit step.
  for (const auto& row : rows) {
    const double most = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (const float x : row) sum += std::exp(factor * (std::max(x, range->low) - most));
    const double masked = 1000.0 * std::exp(factor * (range->low - most));
    EXPECT_LT(masked / (sum + masked), 1.0 / 131072.0);
  }

  RowMaxObserver other("o"), empty("e");
  other.add_row(std::vector<float>{-1000.0f});
  other.merge(observer);
  other.merge(empty);
  EXPECT_EQ(other.lowest_row_max(), -1000.0f);
  EXPECT_EQ(other.rows(), 201u);
  EXPECT_FALSE(empty.range(factor).ok());
  EXPECT_FALSE(observer.range(0.0f).ok());
  EXPECT_FALSE(observer.range(1e-40f).ok());
  EXPECT_FALSE(masked_score_range(2.0f, 1.0f, 1.0f).ok());
  EXPECT_FALSE(masked_score_range(kNaN, 1.0f, 1.0f).ok());
  observer.add_row(std::vector<float>{1.0f, kNaN});
  const auto broken = observer.range(factor);
  ASSERT_FALSE(broken.ok());
  EXPECT_NE(broken.error().message.find("layers.0.attention.masked"), std::string::npos);
}

}  // namespace make_encoding_test
}  // namespace tandem
