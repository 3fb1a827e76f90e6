// Conversion of a method's inputs and outputs by dtype and encoding: masks in, logits out, as the metadata says.
// The dtype is dispatched once per call, never inside a loop.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

// Floats into `count` numbers of a dtype: rounded to nearest even, saturated; NaN becomes the zero point.
void encode_row(DType dtype, const Encoding& encoding, const float* from, int64_t count, void* to);
// And back.
void decode_row(DType dtype, const Encoding& encoding, const void* from, int64_t count, float* to);

// Rounds floats to what a dtype can hold: encode and decode.
void round_row(DType dtype, const Encoding& encoding, float* values, int64_t count);

// The two values of a mask: "visible" (0) and "masked" (the lowest value of the dtype).
struct MaskValues {
  uint32_t visible = 0;  // The element's bits.
  uint32_t masked = 0;
};
MaskValues mask_values(DType dtype, const Encoding& encoding);
// For float masks that are added to scores as they are (OpKind::kAddMask).
MaskValues finite_mask_values(DType dtype);

struct MaskShape {
  int64_t rows = 0;
  int64_t columns = 0;  // `context` of them, or `rows` more: the call's own rows follow the slots.
  int64_t context = 0;
  int64_t first = 0;   // Position of row 0.
  int64_t count = 0;   // Rows from there on are padding and see nothing.
  int64_t window = 0;  // Row i sees the last so many positions, its own included; 0: all.
};
// A causal mask. Row i sees the slots up to and including `first` + i. Where the call's own rows follow the
// slots, it sees the slots before `first` and the call's rows up to its own.
void fill_mask(DType dtype, const MaskShape& shape, const MaskValues& values, void* mask);

// A mask input of any dtype to additive floats; the lowest quantized value means -infinity, even where it decodes to a
// finite number. `data` has the mask's elements, `to` as many floats.
Status mask_to_float(const Tensor& mask, const void* data, float* to);

}  // namespace tandem::ir
