#include "numerics/weight_matrix.h"

#include <algorithm>

#include "base/half.h"

namespace tandem {
namespace {

constexpr std::string_view kNames[kWeightFormatCount] = {"fp32", "fp16", "bf16", "int8", "lpbq4"};

}  // namespace

std::string_view weight_format_name(WeightFormat format) { return kNames[static_cast<int>(format)]; }

std::optional<WeightFormat> weight_format_from_name(std::string_view name) {
  for (int i = 0; i < kWeightFormatCount; ++i) {
    if (kNames[i] == name) return static_cast<WeightFormat>(i);
  }
  return std::nullopt;
}

void WeightMatrix::dequantize_row(int64_t row, float* out) const {
  const int64_t base = row * cols;
  switch (format) {
    case WeightFormat::kF32: std::copy_n(f32.begin() + base, cols, out); return;
    case WeightFormat::kF16:
      for (int64_t c = 0; c < cols; ++c) out[c] = f32_from_f16(half[base + c]);
      return;
    case WeightFormat::kBF16:
      for (int64_t c = 0; c < cols; ++c) out[c] = f32_from_bf16(half[base + c]);
      return;
    case WeightFormat::kI8:
      for (int64_t c = 0; c < cols; ++c) out[c] = scales[row] * static_cast<float>(quantized[base + c]);
      return;
    case WeightFormat::kLpbq4: {
      const uint8_t* row_multipliers = multipliers.data() + row * blocks_per_row();
      for (int64_t c = 0; c < cols; ++c) {
        out[c] = scales[row] * static_cast<float>(quantized[base + c] * row_multipliers[c / block]);
      }
      return;
    }
  }
}

}  // namespace tandem
