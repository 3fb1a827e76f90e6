// The one portable form of a weight matrix after quantization. Every back end starts from it: a CPU packs it into
// panels, HTP takes quantized values, multipliers and scales as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tandem {

// The numeric values are stored in artifacts: never renumber, only append.
enum class WeightFormat : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI8 = 3,     // w = scale[row] * q, q in -127..127.
  kLpbq4 = 4,  // w = scale[row] * multiplier[row, block] * q, q in -8..7, multiplier in 1..16.
};
inline constexpr int kWeightFormatCount = 5;

std::string_view weight_format_name(WeightFormat format);  // "fp32", "fp16", "bf16", "int8", "lpbq4"
std::optional<WeightFormat> weight_format_from_name(std::string_view name);
constexpr bool is_quantized(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return false;
    case WeightFormat::kI8:
    case WeightFormat::kLpbq4: return true;
  }
  return false;
}

// [rows, cols], row-major; a row is an output channel (or, in an embedding, a token).
struct WeightMatrix {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int block = 0;                     // kLpbq4: inputs per block, 16, 32 or 64; the last block of a row may be short.
  std::vector<float> f32;            // kF32
  std::vector<uint16_t> half;        // kF16, kBF16
  std::vector<int8_t> quantized;     // kI8, kLpbq4: one value per byte.
  std::vector<uint8_t> multipliers;  // kLpbq4: [rows, blocks_per_row()]
  std::vector<float> scales;         // kI8, kLpbq4: [rows]

  int64_t blocks_per_row() const { return block == 0 ? 0 : (cols + block - 1) / block; }
  // Dequantizes one row; `out` holds cols floats.
  void dequantize_row(int64_t row, float* out) const;
};

}  // namespace tandem
