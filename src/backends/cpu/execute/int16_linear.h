// Linear layers with int16 activations: two rows of int8 values for each token (KernelTable::quantize_rows_int16).
// The int8 kernels compute both, and the two results are added. Weights are read once for both halves, so decoding,
// which is bound by memory, pays less than a prompt, which pays for twice the multiplications
// (docs/quantization.md has measurements).
#pragma once

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {

// Bytes of scratch that int16_linear() needs for a matrix and a number of tokens.
uint64_t int16_linear_scratch(const KernelTable& kernels, const PackedMatrix& weight, int64_t tokens);

// Like kernels.linear(), with task.quantized of 2 * task.tokens rows. The order is always upper half + lower half
// (+ bias), so a token's result does not depend on others in the call.
void int16_linear(const KernelTable& kernels, const LinearTask& task);

}  // namespace tandem::cpu
