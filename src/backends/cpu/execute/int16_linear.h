// Linear layers whose input is in 16 bits: two rows of int8 codes for each token (KernelTable::quantize_rows_int16).
// The kernels for int8 compute both, and the two results are added. Weights are read once for both halves, so that
// decoding, which waits for memory, pays less than a prompt, which pays twice the multiplications
// (docs/quantization.md has figures).
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {

// Bytes of scratch that int16_linear() needs for a matrix and a number of tokens.
uint64_t int16_linear_scratch(const KernelTable& kernels, const PackedMatrix& weight, int64_t tokens);

// As kernels.linear(), with task.quantized of 2 * task.tokens rows. Always upper half + lower half (+ bias): a token's
// result does not depend on others in the call.
void int16_linear(const KernelTable& kernels, const LinearTask& task);

}  // namespace tandem::cpu
