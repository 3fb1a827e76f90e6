// The tables for CPUs with AVX2, FMA and F16C (Haswell, Zen and later), without and with AVX-VNNI.
#include "backends/cpu/kernels/simd_avx2.h"
//
#include "backends/cpu/kernels/generic_table.h"

namespace tandem::cpu {

constexpr KernelTable kAvx2Kernels = TANDEM_KERNEL_TABLE(
    "avx2", linear_i8_avx2, linear_lpbq4_avx2, linear_int_scratch_avx2, multiply_int8_avx2, quantized_layout_portable);

constexpr KernelTable kAvxVnniKernels =
    TANDEM_KERNEL_TABLE("avxvnni", linear_int_avxvnni, linear_int_avxvnni, linear_int_scratch_avxvnni,
                        multiply_int8_avxvnni, quantized_layout_portable);

}  // namespace tandem::cpu
