// Converts between the portable form of a weight matrix and the panels that kernels read.
#include "weight_layout/packed_matrix.h"

#include <algorithm>
#include <bit>

#include "base/half.h"

namespace tandem {
namespace {

static_assert(std::endian::native == std::endian::little, "packed floats are little-endian, in files too");

int64_t element_bytes(WeightFormat format) { return format == WeightFormat::kF32 ? 4 : 2; }

// [row][col] to [panel][col][16], for elements of any size.
template <typename T>
void pack_float(const T* in, int64_t rows, int64_t cols, T* out) {
  for (int64_t row = 0; row < rows; ++row, in += cols) {
    T* at = out + row / kPanelRows * kPanelRows * cols + row % kPanelRows;
    for (int64_t col = 0; col < cols; ++col) at[col * kPanelRows] = in[col];
  }
}

void pack_i8(const WeightMatrix& in, PackedStorage& out, int64_t padded_cols) {
  for (int64_t row = 0; row < in.rows; ++row) {
    const int8_t* quantized = in.quantized.data() + row * in.cols;
    uint8_t* at = out.data.data() + row / kPanelRows * kPanelRows * padded_cols + row % kPanelRows * 4;
    for (int64_t col = 0; col < in.cols; ++col) {
      at[col / 4 * 4 * kPanelRows + col % 4] = static_cast<uint8_t>(quantized[col]);
    }
  }
}

void pack_lpbq4(const WeightMatrix& in, PackedStorage& out, int64_t padded_cols) {
  const int64_t blocks = in.blocks_per_row();
  const int64_t padded_blocks = padded_cols / in.block;
  std::fill(out.data.begin(), out.data.end(), uint8_t{0x88});
  std::fill(out.multipliers.begin(), out.multipliers.end(), uint8_t{1});
  for (int64_t row = 0; row < in.rows; ++row) {
    const int64_t panel = row / kPanelRows, lane = row % kPanelRows;
    const int8_t* quantized = in.quantized.data() + row * in.cols;
    const uint8_t* multipliers = in.multipliers.data() + row * blocks;
    uint8_t* at = out.data.data() + panel * kPanelRows * padded_cols / 2 + lane * 4;
    uint8_t* multipliers_at = out.multipliers.data() + panel * padded_blocks * kPanelRows + lane;
    for (int64_t b = 0; b < blocks; ++b) multipliers_at[b * kPanelRows] = multipliers[b];
    for (int64_t col = 0; col < in.cols; ++col) {
      uint8_t& byte = at[col / 8 * 4 * kPanelRows + col % 4];
      const int nibble = quantized[col] + 8;
      byte = static_cast<uint8_t>(col % 8 < 4 ? (byte & 0xf0) | nibble : (byte & 0x0f) | nibble << 4);
    }
  }
}

}  // namespace

PackedSizes packed_sizes(WeightFormat format, int64_t rows, int64_t cols, int block) {
  PackedMatrix shape;
  shape.format = format;
  shape.rows = rows;
  shape.cols = cols;
  const uint64_t padded_rows = static_cast<uint64_t>(shape.panels() * kPanelRows);
  const uint64_t padded_cols = static_cast<uint64_t>(shape.padded_cols());
  PackedSizes sizes;
  if (!is_quantized(format)) {
    sizes.data = padded_rows * padded_cols * static_cast<uint64_t>(element_bytes(format));
    return sizes;
  }
  sizes.data = format == WeightFormat::kI8 ? padded_rows * padded_cols : padded_rows * padded_cols / 2;
  sizes.scales = padded_rows * sizeof(float);
  if (format == WeightFormat::kLpbq4) sizes.multipliers = padded_rows * (padded_cols / static_cast<uint64_t>(block));
  return sizes;
}

PackedMatrix PackedStorage::view() const {
  PackedMatrix matrix;
  matrix.format = format;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.block = block;
  matrix.data = data.data();
  matrix.scales = scales.data();
  matrix.multipliers = multipliers.data();
  return matrix;
}

PackedStorage pack_matrix(const WeightMatrix& matrix) {
  PackedStorage out;
  out.format = matrix.format;
  out.rows = matrix.rows;
  out.cols = matrix.cols;
  out.block = matrix.block;
  const PackedSizes sizes = packed_sizes(matrix.format, matrix.rows, matrix.cols, matrix.block);
  out.data.resize(sizes.data);
  out.scales.resize(sizes.scales / sizeof(float));
  out.multipliers.resize(sizes.multipliers);
  std::copy(matrix.scales.begin(), matrix.scales.end(), out.scales.begin());
  const int64_t padded_cols = out.view().padded_cols();
  switch (matrix.format) {
    // The vector's memory comes from operator new and is aligned for any element type.
    case WeightFormat::kF32:
      pack_float(matrix.f32.data(), matrix.rows, matrix.cols, reinterpret_cast<float*>(out.data.data()));
      break;
    case WeightFormat::kF16:
    case WeightFormat::kBF16:
      pack_float(matrix.half.data(), matrix.rows, matrix.cols, reinterpret_cast<uint16_t*>(out.data.data()));
      break;
    case WeightFormat::kI8: pack_i8(matrix, out, padded_cols); break;
    case WeightFormat::kLpbq4: pack_lpbq4(matrix, out, padded_cols); break;
  }
  return out;
}

void unpack_row(const PackedMatrix& matrix, int64_t row, float* out) {
  const int64_t panel = row / kPanelRows, lane = row % kPanelRows;
  const int64_t padded_cols = matrix.padded_cols();
  switch (matrix.format) {
    case WeightFormat::kF32: {
      const float* at = reinterpret_cast<const float*>(matrix.data) + panel * kPanelRows * padded_cols + lane;
      for (int64_t col = 0; col < matrix.cols; ++col) out[col] = at[col * kPanelRows];
      return;
    }
    case WeightFormat::kF16:
    case WeightFormat::kBF16: {
      const uint16_t* at = reinterpret_cast<const uint16_t*>(matrix.data) + panel * kPanelRows * padded_cols + lane;
      const auto convert = matrix.format == WeightFormat::kF16 ? f32_from_f16 : f32_from_bf16;
      for (int64_t col = 0; col < matrix.cols; ++col) out[col] = convert(at[col * kPanelRows]);
      return;
    }
    case WeightFormat::kI8: {
      const uint8_t* at = matrix.data + panel * kPanelRows * padded_cols + lane * 4;
      const float scale = matrix.scales[row];
      for (int64_t col = 0; col < matrix.cols; ++col) {
        out[col] = scale * static_cast<float>(static_cast<int8_t>(at[col / 4 * 4 * kPanelRows + col % 4]));
      }
      return;
    }
    case WeightFormat::kLpbq4: {
      const uint8_t* at = matrix.data + panel * kPanelRows * padded_cols / 2 + lane * 4;
      const uint8_t* multipliers = matrix.multipliers + panel * (padded_cols / matrix.block) * kPanelRows + lane;
      const float scale = matrix.scales[row];
      for (int64_t col = 0; col < matrix.cols; ++col) {
        const int byte = at[col / 8 * 4 * kPanelRows + col % 4];
        const int q = (col % 8 < 4 ? byte & 15 : byte >> 4) - 8;
        out[col] = scale * static_cast<float>(q * multipliers[col / matrix.block * kPanelRows]);
      }
      return;
    }
  }
}

}  // namespace tandem
