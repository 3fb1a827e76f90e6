// The tables for CPUs with AVX-512 F, BW, VL, DQ and VNNI, and BMI2 (Cascade Lake, Ice Lake, Zen 4 and later), without
// and with AMX (Sapphire Rapids and later).
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/generic_table.h"

namespace tandem::cpu {

constexpr KernelTable kAvx512VnniKernels =
    TANDEM_KERNEL_TABLE("avx512vnni", linear_int_avx512vnni, linear_int_avx512vnni, linear_int_scratch_avx512vnni,
                        multiply_int8_avx512vnni, quantized_layout_avx512vnni);

namespace {

void attention_amx_or_words(const AttentionTask& task) {
  if (!int_attention_amx(task)) int_attention(task);
}

uint64_t attention_scratch_amx(int64_t tokens, int64_t group, int64_t dim) {
  const uint64_t others = attention_scratch_floats(tokens, group, dim);
  const uint64_t tiles = int_attention_scratch_amx(tokens, group, dim);
  return others > tiles ? others : tiles;
}

constexpr KernelTable make_amx_kernels() {
  KernelTable table = TANDEM_KERNEL_TABLE("amx", linear_int_amx, linear_int_amx, linear_int_scratch_amx,
                                          multiply_int8_amx, quantized_layout_amx);
  table.attention = attention<attention_amx_or_words>;
  table.attention_scratch_floats = attention_scratch_amx;
  return table;
}

}  // namespace

constexpr KernelTable kAmxKernels = make_amx_kernels();

}  // namespace tandem::cpu
