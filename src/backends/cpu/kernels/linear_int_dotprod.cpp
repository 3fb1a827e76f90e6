// Integer linear layers for CPUs with sdot and without smmla (Armv8.2 with dot products: Cortex-A55, A75 and later).
#include "backends/cpu/kernels/linear_int_dotprod.h"

namespace tandem::cpu {
namespace {

void linear_expanded(const LinearTask& task) {
  int8_t* const expanded = reinterpret_cast<int8_t*>(task.scratch);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    expand_nibbles(*task.weight, panel, [=](int64_t group, int quad, int8x16_t first, int8x16_t second) {
      vst1q_s8(expanded + group * 128 + quad * 16, first);
      vst1q_s8(expanded + group * 128 + quad * 16 + 64, second);
    });
    all_tokens<kByteTokens>(task.tokens, ByteTile{task, panel, expanded});
  }
}

}  // namespace

int64_t multiply_int8_dotprod(int64_t rounds) {
  return count_products(rounds, 16 * 2, [](int32x4_t sum, int8x16_t x) { return vdotq_s32(sum, x, x); });
}

uint64_t linear_int_scratch_dotprod(const PackedMatrix& weight, int64_t tokens) {
  if (weight.format == WeightFormat::kI8) return 0;
  return static_cast<uint64_t>(tokens <= kNibbleTokens ? nibble_scratch(weight, tokens)
                                                       : kPanelRows * padded(weight.cols));
}

void linear_int_dotprod(const LinearTask& task) {
  if (task.weight->format == WeightFormat::kI8) {
    linear_bytes(task);
  } else if (task.tokens <= kNibbleTokens) {
    linear_nibbles(task);
  } else {
    linear_expanded(task);
  }
}

}  // namespace tandem::cpu
