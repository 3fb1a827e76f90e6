// All generic kernels, put into a KernelTable. A table_<isa>.cpp includes its simd_*.h, then this, and names its
// integer linear kernels.
#pragma once

#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"

// In this order: each uses the ones before it.
#include "backends/cpu/kernels/generic_math.h"
//
#include "backends/cpu/kernels/generic_elementwise.h"
#include "backends/cpu/kernels/generic_interleave.h"
#include "backends/cpu/kernels/generic_kv_tile.h"
#include "backends/cpu/kernels/generic_matmul.h"
//
#include "backends/cpu/kernels/generic_attention.h"
#include "backends/cpu/kernels/generic_int_attention.h"
#include "backends/cpu/kernels/generic_linear_float.h"
#include "backends/cpu/kernels/generic_store_kv.h"

namespace tandem::cpu {
namespace {

template <void (*LinearI8)(const LinearTask&), void (*LinearLpbq4)(const LinearTask&)>
void linear(const LinearTask& task) {
  switch (task.weight->format) {
    case WeightFormat::kF32: linear_float<WeightFormat::kF32>(task); return;
    case WeightFormat::kF16: linear_float<WeightFormat::kF16>(task); return;
    case WeightFormat::kBF16: linear_float<WeightFormat::kBF16>(task); return;
    case WeightFormat::kI8: LinearI8(task); return;
    case WeightFormat::kLpbq4: LinearLpbq4(task); return;
  }
}

// IntAttention: quantized attention over a u8 cache.
template <void (*IntAttention)(const AttentionTask&)>
void attention(const AttentionTask& task) {
  switch (task.k.dtype) {
    case DType::kF16: attention_of_type<DType::kF16>(task); return;
    case DType::kU8: task.quantized ? IntAttention(task) : attention_of_type<DType::kU8>(task); return;
    case DType::kF32:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4: attention_of_type<DType::kF32>(task); return;  // Caches are f32, f16 or u8.
  }
}

uint64_t attention_scratch_floats(int64_t tokens, int64_t group, int64_t dim) {
  const int64_t floats = AttentionScratch(nullptr, tokens, group, dim).size;
  const int64_t integers = IntScratch(nullptr, tokens, group, dim).size;
  return static_cast<uint64_t>(floats > integers ? floats : integers);
}

template <uint64_t (*LinearScratch)(const PackedMatrix&, int64_t)>
uint64_t linear_scratch_bytes(const PackedMatrix& weight, int64_t tokens) {
  const bool is_int = weight.format == WeightFormat::kI8 || weight.format == WeightFormat::kLpbq4;
  return is_int ? LinearScratch(weight, tokens) : linear_float_scratch(weight, tokens);
}

}  // namespace
}  // namespace tandem::cpu

#define TANDEM_KERNEL_TABLE(isa_name, linear_i8, linear_lpbq4, int_scratch, int8_peak, layout)                    \
  {                                                                                                               \
    .isa = isa_name, .linear = linear<linear_i8, linear_lpbq4>,                                                   \
    .linear_scratch_bytes = linear_scratch_bytes<int_scratch>, .quantized_layout = layout,                        \
    .quantize_rows = quantize_rows, .quantize_rows_int16 = quantize_rows_int16, .rms_norm = rms_norm,             \
    .layer_norm = layer_norm, .add = add, .mul = mul, .scale = scale, .silu = silu, .gelu_tanh = gelu_tanh,       \
    .silu_mul = silu_mul, .gelu_tanh_mul = gelu_tanh_mul, .softcap = softcap, .rope = rope, .hadamard = hadamard, \
    .store_key = store_key, .store_value = store_value, .attention = attention<int_attention>,                    \
    .attention_scratch_floats = attention_scratch_floats, .multiply_int8 = int8_peak, .argmax = argmax,           \
  }
