#include "numerics/fake_quant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"

namespace tandem {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr uint32_t kInfinityBits = 0x7f800000u;
// Below this, 32512 / max|x| could overflow.
constexpr float kTiny = 1e-30f;

// Rounds to the nearest integer, ties to even, for |x| < 2^22.
float round_small(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

// The bits of the largest magnitude: kInfinityBits or more if the row has a non-finite number.
uint32_t max_magnitude_bits(std::span<const float> x) {
  uint32_t largest = 0;
  for (const float value : x) largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  return largest;
}

constexpr float kTop8 = 127.0f;

// Calls put(i, q) with each quantized value, a whole float up to `top` in magnitude, and returns the scale.
template <typename Put>
float quantize_each(std::span<const float> x, float top, Put put) {
  const uint32_t bits = max_magnitude_bits(x);
  if (bits == 0 || bits >= kInfinityBits) {
    for (size_t i = 0; i < x.size(); ++i) put(i, 0.0f);
    return bits == 0 ? 0.0f : kNaN;
  }
  const float largest = std::bit_cast<float>(bits);
  if (largest > kTiny) {
    const float inverse = top / largest;
    for (size_t i = 0; i < x.size(); ++i) put(i, round_small(x[i] * inverse));
  } else {
    for (size_t i = 0; i < x.size(); ++i) put(i, round_small(x[i] / largest * top));
  }
  return largest / top;
}

ScaleAndMin range_of(std::span<const float> x) {
  if (x.empty()) return {};
  float low = x[0], high = x[0];
  for (const float value : x) {
    low = value < low ? value : low;
    high = value > high ? value : high;
  }
  const float range = high - low;
  if (max_magnitude_bits(x) >= kInfinityBits || std::isinf(range)) return {kNaN, kNaN};
  return {range / 255.0f, low};
}

// A denormal scale is imprecise, hence the minimum.
float quantize_u8(float x, ScaleAndMin range) { return round_small(std::min((x - range.min) / range.scale, 255.0f)); }

bool has_range(ScaleAndMin range) { return range.scale > 0; }

}  // namespace

float quantize_row_i8(std::span<const float> x, std::span<int8_t> quantized) {
  return quantize_each(x, kTop8, [&](size_t i, float q) { quantized[i] = static_cast<int8_t>(q); });
}

void fake_quantize_row_i8(std::span<float> row) {
  const float scale = quantize_each(row, kTop8, [&](size_t i, float q) { row[i] = q; });
  for (float& value : row) value *= scale;
}

void fake_quantize_row_i16(std::span<float> row) {
  const float scale = quantize_each(row, kInt16Top, [&](size_t i, float q) { row[i] = q; });
  for (float& value : row) value *= scale;
}

ScaleAndMin quantize_row_u8(std::span<const float> x, std::span<uint8_t> quantized) {
  const ScaleAndMin range = range_of(x);
  for (size_t i = 0; i < x.size(); ++i)
    quantized[i] = has_range(range) ? static_cast<uint8_t>(quantize_u8(x[i], range)) : 0;
  return range;
}

void fake_quantize_row_u8(std::span<float> row) {
  const ScaleAndMin range = range_of(row);
  for (float& value : row) value = has_range(range) ? range.scale * quantize_u8(value, range) + range.min : range.min;
}

float weight_scale(ScaleAndMin values) {
  if (values.scale > kSmallestWeightScale) return values.scale;
  return std::max(std::abs(values.min) * 0x1p-20f, kSmallestWeightScale);
}

void fake_quantize_weights(std::span<double> weights, std::span<const ScaleAndMin> values) {
  for (size_t begin = 0; begin < weights.size(); begin += size_t{kWeightRun}) {
    const size_t end = std::min(begin + size_t{kWeightRun}, weights.size());
    double largest = 0.0;
    for (size_t i = begin; i < end; ++i) {
      if (weights[i] > 0.0) largest = std::max(largest, weights[i] * double{weight_scale(values[i])});
    }
    const double step = largest / double{kInt16Top};
    for (size_t i = begin; i < end; ++i) {
      if (!(weights[i] > 0.0)) continue;  // Masked, or NaN, which stays.
      const double scale = double{weight_scale(values[i])};
      weights[i] = std::nearbyint(weights[i] * scale / step) * step / scale;
    }
  }
}

void fake_round_f16(std::span<float> row) {
  for (float& value : row) value = f32_from_f16(f16_from_f32(value));
}

}  // namespace tandem
