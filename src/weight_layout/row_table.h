// A table of int8 rows that are read one at a time, each contiguous: a few pages of the mapped file per token, where
// the panels of packed_matrix.h would touch sixteen times as many. Also rescoring with it: the LM head's largest
// logits, found with few bits, are recomputed from their rows (OpKind::kRescore).
#pragma once

#include <cstdint>
#include <vector>

#include "weight_layout/packed_matrix.h"

namespace tandem {

struct RowTable {
  int64_t rows = 0;
  int64_t cols = 0;
  const int8_t* values = nullptr;  // [rows][stride()], padded with zeros.
  const float* scales = nullptr;   // [rows]

  int64_t stride() const { return (cols + kColAlign - 1) / kColAlign * kColAlign; }
};

// Sizes in bytes of the two parts.
PackedSizes row_table_sizes(int64_t rows, int64_t cols);
// The two parts of an int8 matrix, owned.
PackedStorage pack_row_table(const WeightMatrix& matrix);

// Row `row` as floats: `out` holds cols floats.
void unpack_row(const RowTable& table, int64_t row, float* out);

// A vector to multiply rows with, as 16-bit integers: value = scale * q. Finer than the u16 activations that it comes
// from, and integer sums are the same on every machine.
struct RescoreInput {
  std::vector<int16_t> values;  // Padded with zeros like a row.
  double scale = 0.0;

  // NaN or infinity makes every product NaN.
  void set(const float* x, int64_t cols);
};
float multiply_row(const RowTable& table, int64_t row, const RescoreInput& x);

// The `count` largest of `values`, the first ones on ties, in no particular order. `found` holds `count` indices;
// `scratch` grows once to the size that the search needs.
void find_largest(const uint16_t* values, int64_t size, int64_t count, std::vector<uint64_t>& scratch, int32_t* found);

}  // namespace tandem
