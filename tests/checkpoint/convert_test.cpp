#include "checkpoint/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/half.h"

namespace tandem {
namespace convert_test {

// The definition of the format, in doubles.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  double value;
  if (exponent == 31) {
    value = mantissa == 0 ? HUGE_VAL : std::nan("");
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, -24);
  } else {
    value = std::ldexp(1024 + mantissa, exponent - 25);
  }
  return bits & 0x8000 ? -value : value;
}

template <typename Convert>
void check_all_halves(Convert convert) {
  std::vector<uint8_t> source(1 + 2 * 65536);  // From an odd address.
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    std::memcpy(&source[1 + 2 * i], &bits, 2);
  }
  std::vector<float> out(65536);
  convert(source.data() + 1, out.data(), out.size());
  for (uint32_t i = 0; i < 65536; ++i) {
    const double want = half_value(static_cast<uint16_t>(i));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(out[i])) << i;
    } else {
      EXPECT_EQ(static_cast<double>(out[i]), want) << i;
      EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << i;
    }
  }
}

TEST(Convert, ConvertsEveryHalf) {
  check_all_halves(convert_f16_to_f32);
  check_all_halves(convert_f16_to_f32_portable);
}

TEST(Convert, ConvertsEveryBfloat16) {
  std::vector<uint8_t> source(1 + 2 * 65536);
  for (uint32_t i = 0; i < 65536; ++i) {
    source[1 + 2 * i] = static_cast<uint8_t>(i);
    source[2 + 2 * i] = static_cast<uint8_t>(i >> 8);
  }
  std::vector<float> out(65536);
  convert_bf16_to_f32(source.data() + 1, out.data(), out.size());
  for (uint32_t i = 0; i < 65536; ++i) {
    uint32_t bits;
    std::memcpy(&bits, &out[i], 4);
    EXPECT_EQ(bits, i << 16);
  }
}

// Rows of every type at every alignment and at lengths around the vector width.
TEST(Convert, ReadsRowsAtAnyAlignment) {
  std::mt19937 random(7);
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t columns : {1, 3, 7, 8, 9, 33}) {
      const int64_t rows = 5;
      const size_t element = dtype == DType::kF32 ? 4 : 2;
      std::vector<float> values(static_cast<size_t>(rows * columns));
      for (float& value : values) value = static_cast<float>(static_cast<int>(random() % 255) - 127) / 64.0f;  // Exact.
      for (size_t shift = 0; shift < 8; ++shift) {
        std::vector<uint8_t> bytes(shift + values.size() * element);
        for (size_t i = 0; i < values.size(); ++i) {
          const uint16_t small = dtype == DType::kF16 ? f16_from_f32(values[i]) : bf16_from_f32(values[i]);
          if (element == 4) {
            std::memcpy(&bytes[shift + 4 * i], &values[i], 4);
          } else {
            std::memcpy(&bytes[shift + 2 * i], &small, 2);
          }
        }
        const TensorView view{dtype, {rows, columns}, std::span(bytes).subspan(shift)};
        std::vector<float> out(static_cast<size_t>(2 * columns));
        ASSERT_TRUE(read_rows_f32(view, 2, 2, out).ok());
        EXPECT_TRUE(std::equal(out.begin(), out.end(), values.begin() + 2 * columns));
        const auto all = read_tensor_f32(view);
        ASSERT_TRUE(all.ok());
        EXPECT_EQ(*all, values);
      }
    }
  }
}

TEST(Convert, ShapesAndEdges) {
  const std::vector<uint8_t> bytes(24);
  const TensorView cube{DType::kF32, {1, 3, 2}, bytes};
  EXPECT_EQ(tensor_rows(cube), 1);
  EXPECT_EQ(tensor_row_size(cube), 6);
  const TensorView vector{DType::kF32, {6}, bytes};
  EXPECT_EQ(tensor_rows(vector), 6);
  EXPECT_EQ(tensor_row_size(vector), 1);
  const TensorView scalar{DType::kF32, {}, std::span(bytes).first(4)};
  EXPECT_EQ(tensor_rows(scalar), 1);
  EXPECT_EQ(read_tensor_f32(scalar)->size(), 1u);
  const TensorView none{DType::kF32, {0, int64_t{1} << 40, int64_t{1} << 40}, {}};
  EXPECT_EQ(tensor_rows(none), 0);
  EXPECT_EQ(tensor_row_size(none), 0);
  EXPECT_TRUE(read_tensor_f32(none)->empty());
}

TEST(Convert, RefusesWrongRequests) {
  const std::vector<uint8_t> bytes(24);
  const TensorView view{DType::kF32, {3, 2}, bytes};
  std::vector<float> out(4);
  EXPECT_TRUE(read_rows_f32(view, 1, 2, out).ok());
  EXPECT_TRUE(read_rows_f32(view, 3, 0, {}).ok());
  EXPECT_FALSE(read_rows_f32(view, 2, 2, out).ok());
  EXPECT_FALSE(read_rows_f32(view, -1, 2, out).ok());
  EXPECT_FALSE(read_rows_f32(view, 0, -2, out).ok());
  EXPECT_FALSE(read_rows_f32(view, INT64_MAX, INT64_MAX, out).ok());
  EXPECT_FALSE(read_rows_f32(view, 0, 1, out).ok());  // The buffer is too large: still a mistake.
  EXPECT_FALSE(read_rows_f32(view, 0, 3, out).ok());
  EXPECT_EQ(read_rows_f32({DType::kI8, {6, 4}, bytes}, 0, 1, out).error().code, ErrorCode::kUnsupported);
  EXPECT_FALSE(read_rows_f32({DType::kF32, {4, 2}, bytes}, 0, 2, out).ok());  // The bytes do not hold the shape.
  EXPECT_FALSE(read_tensor_f32({DType::kF32, {INT64_MAX}, bytes}).ok());
}

}  // namespace convert_test
}  // namespace tandem
