// What the per-instruction-set files share with each other and with dispatch.cpp. Nothing here is inline: see
// kernels.cmake.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {

// Linear layers of the integer formats, kI8 and kLpbq4.
void linear_int_portable(const LinearTask& task);
uint64_t linear_int_scratch_portable(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_portable(int64_t rounds);
const QuantizedLayout* quantized_layout_portable(int64_t tokens);  // None, for any number of tokens.

#ifdef TANDEM_KERNELS_X86
extern const KernelTable kAvx2Kernels;
void linear_i8_avx2(const LinearTask& task);
void linear_lpbq4_avx2(const LinearTask& task);
uint64_t linear_int_scratch_avx2(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_avx2(int64_t rounds);

extern const KernelTable kAvxVnniKernels;
void linear_int_avxvnni(const LinearTask& task);
uint64_t linear_int_scratch_avxvnni(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_avxvnni(int64_t rounds);

extern const KernelTable kAvx512VnniKernels;
void linear_int_avx512vnni(const LinearTask& task);
uint64_t linear_int_scratch_avx512vnni(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_avx512vnni(int64_t rounds);
const QuantizedLayout* quantized_layout_avx512vnni(int64_t tokens);

extern const KernelTable kAmxKernels;
void linear_int_amx(const LinearTask& task);
uint64_t linear_int_scratch_amx(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_amx(int64_t rounds);
const QuantizedLayout* quantized_layout_amx(int64_t tokens);
// Quantized attention. Returns false and does nothing if the tiles do not suit the shape.
bool int_attention_amx(const AttentionTask& task);
uint64_t int_attention_scratch_amx(int64_t tokens, int64_t group, int64_t dim);  // In floats.
#endif

#ifdef TANDEM_KERNELS_ARM
extern const KernelTable kNeonKernels;
void linear_int_neon(const LinearTask& task);
uint64_t linear_int_scratch_neon(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_neon(int64_t rounds);

extern const KernelTable kDotprodKernels;
void linear_int_dotprod(const LinearTask& task);
uint64_t linear_int_scratch_dotprod(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_dotprod(int64_t rounds);

extern const KernelTable kI8mmKernels;
void linear_int_i8mm(const LinearTask& task);
uint64_t linear_int_scratch_i8mm(const PackedMatrix& weight, int64_t tokens);
int64_t multiply_int8_i8mm(int64_t rounds);
#endif

}  // namespace tandem::cpu
