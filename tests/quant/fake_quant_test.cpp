#include "numerics/fake_quant.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tandem {
namespace fake_quant_test {

std::vector<float> random_row(size_t size, float spread, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.3f * spread, spread);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

TEST(FakeQuantI8, KnownValues) {
  // Scale 1: quantized values are the rounded values, ties to even.
  std::vector<float> row = {127.0f, -127.0f, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, 3.49f, 0.0f};
  std::vector<int8_t> quantized(row.size());
  EXPECT_EQ(quantize_row_i8(row, quantized), 1.0f);
  EXPECT_EQ(quantized, (std::vector<int8_t>{127, -127, 0, 2, 2, 0, -2, 3, 0}));
  fake_quantize_row_i8(row);
  EXPECT_EQ(row, (std::vector<float>{127, -127, 0, 2, 2, 0, -2, 3, 0}));
}

TEST(FakeQuantI8, StaysWithinHalfAStepAtAnyMagnitude) {
  for (const float spread : {1e-38f, 1e-31f, 1e-3f, 1.0f, 1e4f, 1e37f}) {
    const std::vector<float> row = random_row(101, spread, 3);
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::fabs(value));
    std::vector<float> got = row;
    fake_quantize_row_i8(got);
    std::vector<int8_t> quantized(row.size());
    const float scale = quantize_row_i8(row, quantized);
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(got[i], row[i], largest / 127 * 0.501f + 1e-44f) << spread;
      EXPECT_EQ(got[i], scale * static_cast<float>(quantized[i]));
      EXPECT_GE(quantized[i], -127);
    }
  }
}

TEST(FakeQuantI8, ZerosStayZeroAndNonFiniteRowsBecomeNan) {
  std::vector<float> zeros(7, 0.0f);
  fake_quantize_row_i8(zeros);
  EXPECT_EQ(zeros, std::vector<float>(7, 0.0f));
  for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> row = {1.0f, bad, 2.0f};
    fake_quantize_row_i8(row);
    for (const float value : row) EXPECT_TRUE(std::isnan(value));
    row = {1.0f, 2.0f, -bad};
    fake_quantize_row_u8(row);
    for (const float value : row) EXPECT_TRUE(std::isnan(value));
  }
  fake_quantize_row_i8({});
  fake_quantize_row_u8({});
}

TEST(FakeQuantI16, KnownValues) {
  // Scale 1: quantized values are the rounded values, ties to even.
  std::vector<float> row = {32512.0f, -32512.0f, 0.5f, 1.5f, 12345.5f, -12344.5f, 3.49f, 0.0f};
  fake_quantize_row_i16(row);
  EXPECT_EQ(row, (std::vector<float>{32512, -32512, 0, 2, 12346, -12344, 3, 0}));
  EXPECT_EQ(kInt16Top, static_cast<float>(kInt16Base * 127 + 127)) << "two halves of -127..127 give all of it";
}

TEST(FakeQuantI16, StaysWithinHalfAStepAtAnyMagnitude) {
  for (const float spread : {1e-38f, 1e-31f, 1e-3f, 1.0f, 1e4f, 1e37f}) {
    const std::vector<float> row = random_row(101, spread, 3);
    float largest = 0;
    for (const float value : row) largest = std::max(largest, std::fabs(value));
    std::vector<float> got = row;
    fake_quantize_row_i16(got);
    // A denormal step has few digits itself.
    const float slack = largest * 1e-6f + 32512 * 1e-45f;
    for (size_t i = 0; i < row.size(); ++i) EXPECT_NEAR(got[i], row[i], largest / 32512 * 0.501f + slack) << spread;
  }
  std::vector<float> broken = {1.0f, std::numeric_limits<float>::infinity()};
  fake_quantize_row_i16(broken);
  for (const float value : broken) EXPECT_TRUE(std::isnan(value));
  std::vector<float> zeros(3, 0.0f);
  fake_quantize_row_i16(zeros);
  EXPECT_EQ(zeros, std::vector<float>(3, 0.0f));
  fake_quantize_row_i16({});
}

TEST(FakeQuantU8, KnownValues) {
  std::vector<float> row = {-5.0f, 250.0f, -4.5f, -3.5f, 0.0f, 249.4f};
  std::vector<uint8_t> quantized(row.size());
  const ScaleAndMin range = quantize_row_u8(row, quantized);
  EXPECT_EQ(range.scale, 1.0f);
  EXPECT_EQ(range.min, -5.0f);
  EXPECT_EQ(quantized, (std::vector<uint8_t>{0, 255, 0, 2, 5, 254}));
  fake_quantize_row_u8(row);
  EXPECT_EQ(row, (std::vector<float>{-5, 250, -5, -3, 0, 249}));
}

TEST(FakeQuantU8, StaysWithinHalfAStepAtAnyMagnitude) {
  for (const float spread : {1e-44f, 1e-40f, 1e-3f, 1.0f, 1e4f, 1e37f}) {
    const std::vector<float> row = random_row(128, spread, 6);
    const auto [low, high] = std::minmax_element(row.begin(), row.end());
    std::vector<float> got = row;
    fake_quantize_row_u8(got);
    std::vector<uint8_t> quantized(row.size());
    const ScaleAndMin range = quantize_row_u8(row, quantized);
    const float step = (*high - *low) / 255;
    for (size_t i = 0; i < row.size(); ++i) {
      EXPECT_NEAR(got[i], row[i], step * 0.502f + (spread < 1e-37f ? 255 * 1.5e-45f : 0)) << spread;
      EXPECT_EQ(got[i], range.scale * static_cast<float>(quantized[i]) + range.min);
    }
  }
}

TEST(FakeQuantU8, AConstantRowIsExact) {
  for (const float constant : {0.0f, 0.1f, -3e38f}) {
    std::vector<float> row(5, constant);
    fake_quantize_row_u8(row);
    EXPECT_EQ(row, std::vector<float>(5, constant));
  }
  // A range that overflows a float is NaN, not silently wrong.
  std::vector<float> row = {-3e38f, 3e38f};
  fake_quantize_row_u8(row);
  EXPECT_TRUE(std::isnan(row[0]) && std::isnan(row[1]));
}

TEST(FakeQuantWeights, WeightsAreScaledToTheLargestProductOfARun) {
  // Weight times scale: 2, 1, masked, and a constant row.
  const std::vector<ScaleAndMin> values = {{1.0f, 0.0f}, {0.5f, 7.0f}, {4.0f, 0.0f}, {0.0f, 3.0f}};
  std::vector<double> weights = {2.0 - 1e-9, 2.0, 0.0, 1.0};
  fake_quantize_weights(weights, values);
  const double step = (2.0 - 1e-9) / 32512;
  EXPECT_NEAR(weights[0], 2.0 - 1e-9, 1e-12);
  EXPECT_NEAR(weights[1], 32512 / 2 * step / 0.5, 1e-9);
  EXPECT_EQ(weights[2], 0.0);
  // Its substitute for a scale is 3 / 2^20, far below a step.
  EXPECT_EQ(weight_scale(values[3]), 3.0f * 0x1p-20f);
  EXPECT_EQ(weights[3], 0.0);
}

TEST(FakeQuantWeights, RunsHaveScalesOfTheirOwn) {
  const std::vector<ScaleAndMin> values(130, {0.01f, -1.0f});
  std::vector<double> weights(130);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::exp(-0.3 * static_cast<double>(i));
  const std::vector<double> exact = weights;
  fake_quantize_weights(weights, values);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(weights[i], exact[i], exact[i / 64 * 64] / 32512 * 0.5000001) << i;
  }
  EXPECT_EQ(weights[128], exact[128]);
  EXPECT_EQ(weights[63], 0.0);
}

TEST(FakeRoundF16, RoundsToElevenBits) {
  std::vector<float> row = {1.0f + 0x1p-11f, 1.0f + 0x1.8p-10f, 65504.0f, 70000.0f, 0x1p-25f, -0.1f};
  fake_round_f16(row);
  EXPECT_EQ(row[0], 1.0f);            // A tie, to even.
  EXPECT_EQ(row[1], 1.0f + 0x1p-9f);  // A tie, to even.
  EXPECT_EQ(row[2], 65504.0f);
  EXPECT_TRUE(std::isinf(row[3]));
  EXPECT_EQ(row[4], 0.0f);
  EXPECT_EQ(row[5], -0.0999755859375f);
}

}  // namespace fake_quant_test
}  // namespace tandem
