// The tables for CPUs with AVX-512 F, BW, VL, DQ and VNNI (Cascade Lake, Ice Lake, Zen 4 and later), without and with
// AMX (Sapphire Rapids and later).
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/generic_table.h"

namespace tandem::cpu {

constexpr KernelTable kAvx512VnniKernels =
    TANDEM_KERNEL_TABLE("avx512vnni", linear_int_avx512vnni, linear_int_avx512vnni, linear_int_scratch_avx512vnni,
                        multiply_int8_avx512vnni, code_order_avx512vnni);

constexpr KernelTable kAmxKernels = TANDEM_KERNEL_TABLE("amx", linear_int_amx, linear_int_amx, linear_int_scratch_amx,
                                                        multiply_int8_amx, code_order_amx);

}  // namespace tandem::cpu
