// The table that runs on every CPU.
#include "backends/cpu/kernels/simd_portable.h"
//
#include "backends/cpu/kernels/generic_table.h"

namespace tandem::cpu {
namespace {

constexpr KernelTable kTable =
    TANDEM_KERNEL_TABLE("portable", linear_int_portable, linear_int_portable, linear_int_scratch_portable,
                        multiply_int8_portable, quantized_layout_portable);

}  // namespace

const KernelTable& portable_kernels() { return kTable; }

}  // namespace tandem::cpu
