// A weight matrix in the layout that CPU kernels read, straight from the mapped artifact.
//
// Rows (output channels) come in panels of 16, the last one padded with zero rows. Inside a panel:
//   kF32, kF16, kBF16   [col][16 rows]
//   kI8                 [col / 4][16 rows][4 cols] int8; cols padded with zeros to a multiple of 64
//   kLpbq4              [col / 8][16 rows][4] bytes; byte i of a row has col 8g+i in its low nibble and col 8g+4+i in
//                       its high nibble, both as q + 8 (0..15); cols padded to a multiple of 64 with nibbles of 8 (q =
//                       0)
// Four neighbouring inputs of one row are adjacent because vpdpbusd, sdot and AMX's tdpb* all multiply and add groups
// of four bytes; 64 inputs are one AMX tile row.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

inline constexpr int64_t kPanelRows = 16;
inline constexpr int64_t kColAlign = 64;  // Of quantized formats.
// A longer row of a quantized format could overflow int32: 128 * 127 * 65536 is half of its range. Code that makes a
// PackedMatrix from a file checks this.
inline constexpr int64_t kMaxQuantizedCols = 65536;

struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int block = 0;                         // kLpbq4
  const uint8_t* data = nullptr;         // Panels; 64-byte aligned.
  const float* scales = nullptr;         // kI8, kLpbq4: [panels * 16], padded rows 0.
  const uint8_t* multipliers = nullptr;  // kLpbq4: [panels][padded cols / block][16], 1..16.

  int64_t panels() const { return (rows + kPanelRows - 1) / kPanelRows; }
  int64_t padded_cols() const { return is_quantized(format) ? (cols + kColAlign - 1) / kColAlign * kColAlign : cols; }
};

// Sizes in bytes of the three parts for a matrix of this shape; 0 where a format has no such part.
struct PackedSizes {
  uint64_t data = 0;
  uint64_t scales = 0;
  uint64_t multipliers = 0;
};
PackedSizes packed_sizes(WeightFormat format, int64_t rows, int64_t cols, int block);

// Owns the three parts. Kernels read `view()`.
struct PackedStorage {
  WeightFormat format = WeightFormat::kF32;
  int64_t rows = 0;
  int64_t cols = 0;
  int block = 0;
  std::vector<uint8_t> data;
  std::vector<float> scales;
  std::vector<uint8_t> multipliers;

  PackedMatrix view() const;  // data may be less than 64-byte aligned here; kernels use unaligned loads.
};
PackedStorage pack_matrix(const WeightMatrix& matrix);

// Row `row` as floats (an embedding lookup): `out` holds cols floats.
void unpack_row(const PackedMatrix& matrix, int64_t row, float* out);

}  // namespace tandem
