// dtype.h, half.h, checked.h. The 16-bit floats are compared with the compiler's own conversions if it has them, and
// always with double arithmetic.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "base/half.h"

namespace tandem {
namespace numbers_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// ---- dtype.h ----

TEST(DType, EveryNameRoundTrips) {
  std::set<std::string_view> names;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_TRUE(names.insert(dtype_name(dtype)).second) << dtype_name(dtype);
    EXPECT_EQ(dtype_from_name(dtype_name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from_name("f64"), std::nullopt);
  EXPECT_EQ(dtype_from_name(""), std::nullopt);
  EXPECT_EQ(dtype_from_name("F32"), std::nullopt);
}

TEST(DType, SizesAndRanges) {
  struct Row {
    DType dtype;
    int bits;
    size_t bytes_of_3;
    bool is_float;
    int64_t min, max;
  };
  const Row rows[] = {
      {DType::kF32, 32, 12, true, 0, 0},
      {DType::kF16, 16, 6, true, 0, 0},
      {DType::kBF16, 16, 6, true, 0, 0},
      {DType::kI8, 8, 3, false, INT8_MIN, INT8_MAX},
      {DType::kU8, 8, 3, false, 0, UINT8_MAX},
      {DType::kI16, 16, 6, false, INT16_MIN, INT16_MAX},
      {DType::kU16, 16, 6, false, 0, UINT16_MAX},
      {DType::kI32, 32, 12, false, INT32_MIN, INT32_MAX},
      {DType::kI64, 64, 24, false, INT64_MIN, INT64_MAX},
      {DType::kI4, 4, 2, false, -8, 7},
  };
  static_assert(std::size(rows) == kDTypeCount);
  for (const Row& row : rows) {
    SCOPED_TRACE(dtype_name(row.dtype));
    EXPECT_EQ(dtype_bits(row.dtype), row.bits);
    EXPECT_EQ(dtype_bytes(row.dtype, 3), row.bytes_of_3);
    EXPECT_EQ(dtype_bytes(row.dtype, 0), 0u);
    EXPECT_EQ(dtype_is_float(row.dtype), row.is_float);
    if (row.is_float) continue;
    EXPECT_EQ(dtype_min(row.dtype), row.min);
    EXPECT_EQ(dtype_max(row.dtype), row.max);
  }
}

// ---- half.h ----

// The value of a half's bits, from the definition of the format.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) return fraction == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST(Half, EveryHalfGoesToFloatAndBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const double wanted = half_value(half);
    const float value = f32_from_f16(half);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      const uint16_t back = f16_from_f32(value);
      ASSERT_TRUE((back & 0x7c00) == 0x7c00 && (back & 0x3ff) != 0) << bits;
      ASSERT_EQ(back & 0x8000, half & 0x8000) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), wanted) << bits;
    ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << bits;
    ASSERT_EQ(f16_from_f32(value), half) << bits;
  }
}

// Between every two neighbours: the middle rounds to the even one, the floats right next to it to the nearer one.
TEST(Half, EveryTieRoundsToEven) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const auto low = static_cast<uint16_t>(bits), high = static_cast<uint16_t>(bits + 1);
    // After the largest half comes what would be 65536, which is stored as infinity.
    const double above = high == 0x7c00 ? 65536.0 : half_value(high);
    const auto middle = static_cast<float>((half_value(low) + above) / 2);
    const uint16_t even = (low & 1) == 0 ? low : high;
    ASSERT_EQ(f16_from_f32(middle), even) << bits;
    ASSERT_EQ(f16_from_f32(-middle), even | 0x8000) << bits;
    ASSERT_EQ(f16_from_f32(std::nextafter(middle, 0.0f)), low) << bits;
    ASSERT_EQ(f16_from_f32(std::nextafter(middle, kInfinity)), high) << bits;
  }
}

TEST(Half, BeyondTheRange) {
  EXPECT_EQ(f16_from_f32(65519.996f), 0x7bff);
  EXPECT_EQ(f16_from_f32(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_f32(-1e30f), 0xfc00);
  EXPECT_EQ(f16_from_f32(kInfinity), 0x7c00);
  EXPECT_EQ(f16_from_f32(1e-30f), 0);
  EXPECT_EQ(f16_from_f32(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

TEST(BFloat, EveryOneGoesToFloatAndBack) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto bf16 = static_cast<uint16_t>(bits);
    const float value = f32_from_bf16(bf16);
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(value)))) << bits;
    } else {
      ASSERT_EQ(bf16_from_f32(value), bf16) << bits;
    }
  }
}

TEST(BFloat, EveryTieRoundsToEven) {
  for (uint32_t low = 0; low < 0x7f80; ++low) {
    const uint32_t middle = (low << 16) | 0x8000;
    const uint32_t even = (low & 1) == 0 ? low : low + 1;
    ASSERT_EQ(bf16_from_f32(std::bit_cast<float>(middle)), even) << low;
    ASSERT_EQ(bf16_from_f32(-std::bit_cast<float>(middle)), even | 0x8000) << low;
    ASSERT_EQ(bf16_from_f32(std::bit_cast<float>(middle - 1)), low) << low;
    ASSERT_EQ(bf16_from_f32(std::bit_cast<float>(middle + 1)), low + 1) << low;
  }
}

TEST(BFloat, NotANumberStaysOneWhateverItsBits) {
  // Truncated, this would be infinity.
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::bit_cast<float>(0xffffffffu)))));
  EXPECT_EQ(f32_from_bf16(bf16_from_f32(std::numeric_limits<float>::max())), kInfinity);
}

// ---- checked.h ----

TEST(Checked, ProductsAndSums) {
  constexpr uint64_t kMax = UINT64_MAX;
  EXPECT_EQ(checked_mul(0, kMax), 0u);
  EXPECT_EQ(checked_mul(kMax, 1), kMax);
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, (uint64_t{1} << 32) - 1), kMax - ((uint64_t{1} << 32) - 1));
  EXPECT_EQ(checked_mul(uint64_t{1} << 32, uint64_t{1} << 32), std::nullopt);
  EXPECT_EQ(checked_mul(kMax, 2), std::nullopt);
  EXPECT_EQ(checked_add(kMax, 0), kMax);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  EXPECT_EQ(checked_add(kMax, 1), std::nullopt);
}

TEST(Checked, ElementCounts) {
  const auto count = [](std::vector<int64_t> shape) { return element_count(shape); };
  EXPECT_EQ(count({}), 1u);
  EXPECT_EQ(count({2, 3, 4}), 24u);
  EXPECT_EQ(count({5, 0, 7}), 0u);
  EXPECT_EQ(count({5, -1}), std::nullopt);
  EXPECT_EQ(count({-1, -1}), std::nullopt);
  EXPECT_EQ(count({INT64_MAX, 2}), static_cast<uint64_t>(INT64_MAX) * 2);
  EXPECT_EQ(count({INT64_MAX, 3}), std::nullopt);
}

TEST(Checked, RangesInside) {
  EXPECT_TRUE(range_inside(0, 0, 0));
  EXPECT_TRUE(range_inside(10, 0, 10));
  EXPECT_TRUE(range_inside(3, 7, 10));
  EXPECT_FALSE(range_inside(4, 7, 10));
  EXPECT_FALSE(range_inside(11, 0, 10));
  EXPECT_FALSE(range_inside(8, UINT64_MAX - 4, 10));  // The sum would be 3.
  EXPECT_FALSE(range_inside(UINT64_MAX, UINT64_MAX, UINT64_MAX - 1));
}

TEST(Checked, RoundUp) {
  EXPECT_EQ(round_up(0, 64), 0u);
  EXPECT_EQ(round_up(1, 64), 64u);
  EXPECT_EQ(round_up(64, 64), 64u);
  EXPECT_EQ(round_up(65, 64), 128u);
}

}  // namespace numbers_test
}  // namespace tandem
