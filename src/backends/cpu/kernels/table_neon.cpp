// The tables for 64-bit ARM CPUs: without dot products, with sdot, and with smmla too.
#include "backends/cpu/kernels/simd_neon.h"
//
#include "backends/cpu/kernels/generic_table.h"

namespace tandem::cpu {

constexpr KernelTable kNeonKernels = TANDEM_KERNEL_TABLE(
    "neon", linear_int_neon, linear_int_neon, linear_int_scratch_neon, multiply_int8_neon, quantized_layout_portable);

constexpr KernelTable kDotprodKernels =
    TANDEM_KERNEL_TABLE("dotprod", linear_int_dotprod, linear_int_dotprod, linear_int_scratch_dotprod,
                        multiply_int8_dotprod, quantized_layout_portable);

constexpr KernelTable kI8mmKernels = TANDEM_KERNEL_TABLE(
    "i8mm", linear_int_i8mm, linear_int_i8mm, linear_int_scratch_i8mm, multiply_int8_i8mm, quantized_layout_portable);

}  // namespace tandem::cpu
