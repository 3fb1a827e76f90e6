#include "backends/cpu/execute/int16_linear.h"

#include <algorithm>

namespace tandem::cpu {
namespace {

// The halves' results of a few panels are computed at a time, so that they stay in the second-level cache.
constexpr int64_t kSums = 1 << 17;

int64_t sums_per_panel(int64_t tokens) { return 2 * tokens * kPanelRows; }

// Never less for more tokens: a call may have fewer than the scratch was made for.
uint64_t sums_bytes(const PackedMatrix& weight, int64_t tokens) {
  const int64_t few = std::min(sums_per_panel(tokens) * weight.panels(), kSums);
  return static_cast<uint64_t>(std::max(few, sums_per_panel(tokens))) * sizeof(float);
}

// Panels [begin, begin + count) as a matrix of their own.
PackedMatrix panels_of(const PackedMatrix& matrix, int64_t begin, int64_t count) {
  const PackedSizes before = packed_sizes(matrix.format, begin * kPanelRows, matrix.cols, matrix.block);
  PackedMatrix part = matrix;
  part.rows = std::min(count * kPanelRows, matrix.rows - begin * kPanelRows);
  part.data += before.data;
  part.scales += before.scales / sizeof(float);
  if (part.multipliers != nullptr) part.multipliers += before.multipliers;
  return part;
}

}  // namespace

uint64_t int16_linear_scratch(const KernelTable& kernels, const PackedMatrix& weight, int64_t tokens) {
  return sums_bytes(weight, tokens) + kernels.linear_scratch_bytes(weight, 2 * tokens);
}

void int16_linear(const KernelTable& kernels, const LinearTask& task) {
  auto* sums = reinterpret_cast<float*>(task.scratch);
  const int64_t most_panels = std::max<int64_t>(kSums / sums_per_panel(task.tokens), 1);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; panel += most_panels) {
    const int64_t panels = std::min(most_panels, task.panel_end - panel), first = panel * kPanelRows;
    const PackedMatrix part = panels_of(*task.weight, panel, panels);
    LinearTask halves = task;
    halves.weight = &part;
    halves.panel_begin = 0;
    halves.panel_end = panels;
    halves.tokens = 2 * task.tokens;
    halves.bias = halves.added = nullptr;
    halves.y = sums;
    halves.y_stride = part.rows;
    halves.scratch = task.scratch + sums_bytes(*task.weight, task.tokens);
    kernels.linear(halves);
    for (int64_t t = 0; t < task.tokens; ++t) {
      float* upper = sums + 2 * t * part.rows;
      const int64_t at = t * task.y_stride + first;
      // `added` may alias the results, so they are written last.
      float* const y = task.added == nullptr ? task.y + at : upper;
      kernels.add(upper, upper + part.rows, part.rows, y);
      if (task.bias != nullptr) kernels.add(y, task.bias + first, part.rows, y);
      if (task.added != nullptr) kernels.add(y, task.added + at, part.rows, task.y + at);
    }
  }
}

}  // namespace tandem::cpu
