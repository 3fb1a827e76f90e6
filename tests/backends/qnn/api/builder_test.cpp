// Tensors and error messages: tests that need no library.
#include <set>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/log.h"
#include "backends/qnn/api/qnn_support.h"

namespace tandem::qnn {
namespace builder_test {

using test::says;

TEST(QnnErrors, EveryCodeIsASentenceAndUnknownOnesAreToo) {
  // What abi.h's source lists, by range.
  const std::vector<uint32_t> codes = {1000, 1002, 1003, 1004,  1005,  1006,  1007,  1008,  1009,  1010,  1011,
                                       1100, 2000, 3110, 4000,  4005,  5000,  5002,  5003,  5004,  5005,  5007,
                                       5010, 5011, 6000, 6003,  6004,  6005,  6007,  6022,  6023,  6024,  7003,
                                       7004, 8003, 9000, 11003, 12000, 13002, 14001, 14002, 15000, 30001, 30010};
  for (const uint32_t code : codes) {
    ASSERT_NE(find_error(code), nullptr) << code;
    const Error error = describe_error(code | 0xabcd0000u, "doing it");
    EXPECT_TRUE(says(error, {"doing it: ", std::to_string(code), find_error(code)->name}));
  }
  EXPECT_EQ(find_error(1234), nullptr);
  EXPECT_TRUE(says(describe_error(1234, "doing it", "oops"), {"1234", "does not know", "The library says: oops"}));
}

TEST(QnnLog, AListenerHearsErrorsSinceItsBeginning) {
  log_library_message(LogLevel::kError, "too early");
  const ErrorListener listener;
  EXPECT_EQ(listener.said(), "");
  log_library_message(LogLevel::kWarning, "a warning");
  log_library_message(LogLevel::kError, "one\ntwo");
  log_library_message(LogLevel::kError, "three");
  EXPECT_EQ(listener.said(), "one two | three");
  for (int i = 0; i < 100; ++i) log_library_message(LogLevel::kError, "message " + std::to_string(i));
  EXPECT_EQ(listener.said(), "message 97 | message 98 | message 99");
}

TEST(TensorBuilder, EncodingsCoverTheRangeAndHaveAnExactZero) {
  for (const DataType dtype : {DataType::kFixedU8, DataType::kFixedU16, DataType::kFixedS8, DataType::kFixedS16}) {
    for (const auto& [low, high] : {std::pair{-1.0f, 3.0f}, {2.0f, 5.0f}, {-7.0f, -6.0f}, {0.0f, 0.0f}}) {
      const ScaleOffset encoding = encoding_for_range(dtype, low, high);
      EXPECT_GT(encoding.scale, 0.0f);
      for (const float value : {low, high, 0.0f}) {
        const auto code = static_cast<float>(quantize(dtype, encoding, value) + encoding.offset);
        EXPECT_NEAR(encoding.scale * code, value, encoding.scale * 0.51f) << value;
      }
      EXPECT_EQ(quantize(dtype, encoding, 0.0f) + encoding.offset, 0);
    }
  }
  EXPECT_EQ(quantize(DataType::kFixedU8, {1, -10}, 1e30f), 255);
  EXPECT_EQ(quantize(DataType::kFixedU8, {1, -10}, -1e30f), 0);
  EXPECT_EQ(quantize(DataType::kFixedU8, {1, -10}, std::nanf("")), 10);
  EXPECT_EQ(quantize(DataType::kFixedS8, {2, 0}, 5.0f), 2) << "to even";
}

TEST(TensorBuilder, LpbqKeepsCodesScalesAndMultipliers) {
  const WeightMatrix weights = test::random_weights(WeightFormat::kLpbq4, 6, 64, 16, 1);
  const auto conv = make_conv2d_weights("w", weights);
  ASSERT_TRUE(conv.ok());
  EXPECT_TRUE(check_tensor(*conv).ok());
  EXPECT_EQ(conv->shape, (Shape{1, 1, 64, 6}));
  const auto& conv_lpbq = std::get<Lpbq>(conv->quantization);
  EXPECT_EQ(conv_lpbq.axis, 3);
  EXPECT_EQ(conv_lpbq.blocks, 4u);
  std::vector<float> row(64);
  for (size_t n = 0; n < 6; ++n) {
    weights.dequantize_row(static_cast<int64_t>(n), row.data());
    for (size_t k = 0; k < 64; ++k) {
      const auto code = static_cast<int8_t>(conv->data.bytes()[k * 6 + n]);
      EXPECT_EQ(code, weights.quantized[n * 64 + k]);
      const float scale = conv_lpbq.channels[n].scale * conv_lpbq.multipliers.bytes()[n * 4 + k / 16];
      EXPECT_FLOAT_EQ(scale * code, row[k]);
    }
  }
}

TEST(TensorBuilder, BadWeightsAreRefused) {
  const WeightMatrix good = test::random_weights(WeightFormat::kLpbq4, 4, 64, 32, 1);
  WeightMatrix weights = test::random_weights(WeightFormat::kLpbq4, 4, 48, 32, 1);
  EXPECT_TRUE(says(make_conv2d_weights("w", weights).error(), {"whole LPBQ blocks"}));
  weights = good;
  weights.quantized.pop_back();
  EXPECT_TRUE(says(make_conv2d_weights("w", weights).error(), {"codes"}));
  weights = good;
  weights.multipliers.pop_back();
  EXPECT_TRUE(says(make_conv2d_weights("w", weights).error(), {"multipliers"}));
  weights = good;
  weights.rows = int64_t{1} << 40;
  EXPECT_TRUE(says(make_conv2d_weights("w", weights).error(), {"too big"}));
  const auto check = [](const WeightMatrix& matrix) {
    const auto spec = make_conv2d_weights("w", matrix);
    return spec.ok() ? check_tensor(*spec) : spec.status();
  };
  EXPECT_TRUE(check(good).ok());
  weights = good;
  weights.quantized[7] = 8;
  EXPECT_TRUE(says(check(weights).error(), {"code outside -8..7"}));
  weights.quantized[7] = -9;
  EXPECT_TRUE(says(check(weights).error(), {"code outside -8..7"}));
  weights = good;
  weights.multipliers[3] = 0;
  EXPECT_TRUE(says(check(weights).error(), {"outside 1..16"}));
  weights = good;
  weights.scales[0] = -1;
  EXPECT_TRUE(says(check(weights).error(), {"not a positive number"}));
}

TEST(TensorBuilder, TensorsWhosePartsDoNotFitAreRefused) {
  const ScaleOffset unit = {1, 0};
  const DataType u8 = DataType::kFixedU8;
  EXPECT_TRUE(says(check_tensor(make_input("", u8, {1}, unit)).error(), {"name"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", u8, {1})).error(), {"has no encoding"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", DataType::kFloat16, {1}, unit)).error(), {"has an encoding"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", u8, {1, 0}, unit)).error(), {"dimension of 0"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", u8, Shape(9, 1), unit)).error(), {"9 dimensions"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", u8, {65536, 65536}, unit)).error(), {"4 GiB"}));
  EXPECT_TRUE(says(check_tensor(make_input("x", u8, {1}, ScaleOffset{0, 0})).error(), {"not a positive number"}));
  TensorSpec spec = make_static_f16("c", {3}, std::vector<float>(2));
  EXPECT_TRUE(says(check_tensor(spec).error(), {"has 4 bytes of data, and its shape has 6"}));
  spec = make_static_fixed("c", u8, {2}, std::vector<float>(2), unit);
  EXPECT_TRUE(check_tensor(spec).ok());
  spec.quantization = PerAxis{1, {unit, unit}};
  EXPECT_TRUE(says(check_tensor(spec).error(), {"axis 1"}));
  spec.quantization = PerAxis{0, {unit}};
  EXPECT_TRUE(says(check_tensor(spec).error(), {"1 scales for 2 channels"}));
}

}  // namespace builder_test
}  // namespace tandem::qnn
