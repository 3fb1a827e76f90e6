// Inputs and outputs of methods: numbers of any dtype to floats and back, masks by their two values.
#include "backends/interface/io_conversion.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/half.h"

namespace tandem::ir {
namespace io_conversion_test {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Element>
std::vector<Element> encode(DType dtype, const Encoding& encoding, const std::vector<float>& values) {
  std::vector<Element> encoded(values.size());
  encode_row(dtype, encoding, values.data(), static_cast<int64_t>(values.size()), encoded.data());
  return encoded;
}

template <typename Element>
std::vector<float> decode(DType dtype, const Encoding& encoding, const std::vector<Element>& encoded) {
  std::vector<float> values(encoded.size());
  decode_row(dtype, encoding, encoded.data(), static_cast<int64_t>(encoded.size()), values.data());
  return values;
}

TEST(IoConversion, KeepsFloats) {
  const std::vector<float> values = {0.0f, -1.5f, 3e38f, kInfinity, 1e-40f};
  EXPECT_EQ(encode<float>(DType::kF32, {}, values), values);
  EXPECT_EQ(decode<float>(DType::kF32, {}, values), values);
}

TEST(IoConversion, HalvesRoundToNearestEven) {
  EXPECT_EQ(encode<uint16_t>(DType::kF16, {}, {1.0f, 1.0f + 0x1p-11f, 1.0f + 3 * 0x1p-11f, 1e9f}),
            (std::vector<uint16_t>{0x3c00, 0x3c00, 0x3c02, 0x7c00}));
  EXPECT_EQ(encode<uint16_t>(DType::kBF16, {}, {1.0f, 1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f}),
            (std::vector<uint16_t>{0x3f80, 0x3f80, 0x3f82}));
  EXPECT_EQ(decode<uint16_t>(DType::kF16, {}, {0x3c00, 0xfc00}), (std::vector<float>{1.0f, -kInfinity}));
  EXPECT_EQ(decode<uint16_t>(DType::kBF16, {}, {0x3f80, 0xc000}), (std::vector<float>{1.0f, -2.0f}));
}

TEST(IoConversion, IntegersRoundToNearestEvenAndSaturate) {
  const Encoding encoding{EncodingKind::kPerTensor, 0.5f, 100};
  // In steps of 0.5: ties go to the even step, before the zero point is added.
  EXPECT_EQ(encode<uint8_t>(DType::kU8, encoding, {0.0f, 0.25f, 0.75f, -0.25f, 77.5f, 1000.0f, -50.0f, -51.0f}),
            (std::vector<uint8_t>{100, 100, 102, 100, 255, 255, 0, 0}));
  EXPECT_EQ(encode<uint16_t>(DType::kU16, encoding, {0.0f, 1e9f, -1e9f}), (std::vector<uint16_t>{100, 65535, 0}));
  EXPECT_EQ(encode<int8_t>(DType::kI8, encoding, {0.0f, 100.0f, -200.0f}), (std::vector<int8_t>{100, 127, -128}));
  EXPECT_EQ(encode<int16_t>(DType::kI16, encoding, {0.0f, 1e9f, -1e9f}), (std::vector<int16_t>{100, 32767, -32768}));
}

TEST(IoConversion, NanAndInfinityBecomeOrdinaryIntegers) {
  const Encoding encoding{EncodingKind::kPerTensor, 0.5f, 7};
  EXPECT_EQ(encode<uint8_t>(DType::kU8, encoding, {kNaN, kInfinity, -kInfinity}), (std::vector<uint8_t>{7, 255, 0}));
  // A denormal scale has no finite inverse; results must still stay in range.
  const Encoding tiny{EncodingKind::kPerTensor, 1e-44f, 7};
  EXPECT_EQ(encode<uint8_t>(DType::kU8, tiny, {0.0f, 1.0f, -1.0f}), (std::vector<uint8_t>{7, 255, 0}));
}

TEST(IoConversion, EveryIntegerDecodesAndEncodesToItself) {
  const Encoding encoding{EncodingKind::kPerTensor, 0.0037f, 40'000};
  std::vector<uint16_t> encoded(65536);
  for (size_t i = 0; i < encoded.size(); ++i) encoded[i] = static_cast<uint16_t>(i);
  const std::vector<float> values = decode(DType::kU16, encoding, encoded);
  EXPECT_FLOAT_EQ(values[0], -40'000 * 0.0037f);
  EXPECT_EQ(values[40'000], 0.0f);
  EXPECT_EQ(encode<uint16_t>(DType::kU16, encoding, values), encoded);

  const Encoding small{EncodingKind::kPerTensor, 3.0f, -3};
  std::vector<int8_t> bytes;
  for (int i = -128; i < 128; ++i) bytes.push_back(static_cast<int8_t>(i));
  EXPECT_EQ(encode<int8_t>(DType::kI8, small, decode(DType::kI8, small, bytes)), bytes);
}

// ---- Masks ----

// Fills a mask with the two values of its dtype, as the run time does, and reads it back.
template <typename Element>
void expect_mask_round_trip(DType dtype, const Encoding& encoding) {
  const MaskValues values = mask_values(dtype, encoding);
  EXPECT_NE(values.visible, values.masked);
  Tensor mask{.name = "mask", .dtype = dtype, .shape = {2, 3}, .encoding = encoding};
  const bool visible[6] = {true, false, false, true, true, false};
  std::vector<Element> data;
  for (const bool v : visible) data.push_back(static_cast<Element>(v ? values.visible : values.masked));
  std::vector<float> floats(6, kNaN);
  const Status status = mask_to_float(mask, data.data(), floats.data());
  ASSERT_TRUE(status.ok()) << status.error().message;
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(floats[i], visible[i] ? 0.0f : -kInfinity) << dtype_name(dtype) << i;
}

TEST(Mask, BothValuesOfEveryDtypeComeBack) {
  expect_mask_round_trip<uint32_t>(DType::kF32, {});
  expect_mask_round_trip<uint16_t>(DType::kF16, {});
  expect_mask_round_trip<uint16_t>(DType::kU16, {EncodingKind::kPerTensor, 100.0f / 65535, 65535});
  expect_mask_round_trip<uint8_t>(DType::kU8, {EncodingKind::kPerTensor, 100.0f / 255, 255});
}

TEST(Mask, OtherValuesAreAddedAsTheyAre) {
  Tensor mask{.name = "mask", .dtype = DType::kU8, .shape = {1, 4}, .encoding = {EncodingKind::kPerTensor, 0.5f, 255}};
  const std::vector<uint8_t> data = {0, 1, 254, 255};
  std::vector<float> floats(4);
  ASSERT_TRUE(mask_to_float(mask, data.data(), floats.data()).ok());
  EXPECT_EQ(floats, (std::vector<float>{-kInfinity, -127.0f, -0.5f, 0.0f}));
}

TEST(Mask, AnUnknownDtypeIsRefused) {
  const Tensor mask{.name = "mask", .dtype = DType::kI32, .shape = {1, 1}};
  const int32_t data = 0;
  float value = 0;
  const Status status = mask_to_float(mask, &data, &value);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("i32"), std::string::npos);
}

}  // namespace io_conversion_test
}  // namespace tandem::ir
