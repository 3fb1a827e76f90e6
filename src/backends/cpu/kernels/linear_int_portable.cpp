// Integer linear layers for any CPU: a panel is expanded to int8 rows, followed by plain dot products, which compilers
// turn into the CPU's multiply-add instructions.
#include <cstring>

#include "backends/cpu/kernels/tables.h"

namespace tandem::cpu {
namespace {

// [col / 4][16][4] to [16][padded cols].
void expand_i8(const PackedMatrix& w, int64_t panel, int8_t* out) {
  const int64_t cols = w.padded_cols();
  const uint8_t* in = w.data + panel * kPanelRows * cols;
  for (int64_t col = 0; col < cols; col += 4) {
    for (int64_t row = 0; row < kPanelRows; ++row, in += 4) std::memcpy(out + row * cols + col, in, 4);
  }
}

void expand_lpbq4(const PackedMatrix& w, int64_t panel, int8_t* out) {
  const int64_t cols = w.padded_cols();
  const uint8_t* in = w.data + panel * kPanelRows * cols / 2;
  const uint8_t* multipliers = w.multipliers + panel * kPanelRows * (cols / w.block);
  for (int64_t col = 0; col < cols; col += 8) {
    const uint8_t* block = multipliers + col / w.block * kPanelRows;
    for (int64_t row = 0; row < kPanelRows; ++row, in += 4) {
      const int multiplier = block[row];
      int8_t* at = out + row * cols + col;
      for (int i = 0; i < 4; ++i) {
        at[i] = static_cast<int8_t>(multiplier * ((in[i] & 15) - 8));
        at[4 + i] = static_cast<int8_t>(multiplier * ((in[i] >> 4) - 8));
      }
    }
  }
}

int32_t dot(const int8_t* a, const int8_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += int32_t{a[i]} * int32_t{b[i]};
  return sum;
}

}  // namespace

int64_t multiply_int8_portable(int64_t rounds) {
  int8_t x[256];
  for (size_t i = 0; i < sizeof(x); ++i) x[i] = static_cast<int8_t>(i);
  int32_t sum = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : : "r"(x) : "memory");  // To the compiler, new numbers each time.
    sum += dot(x, x, sizeof(x)) & 1;
  }
  asm volatile("" : : "r"(sum));
  return rounds * static_cast<int64_t>(sizeof(x)) * 2;
}

uint64_t linear_int_scratch_portable(const PackedMatrix& weight, int64_t /*tokens*/) {
  return static_cast<uint64_t>(kPanelRows * weight.padded_cols());
}

void linear_int_portable(const LinearTask& task) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = w.padded_cols();
  int8_t* expanded = reinterpret_cast<int8_t*>(task.scratch);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    if (w.format == WeightFormat::kI8) {
      expand_i8(w, panel, expanded);
    } else {
      expand_lpbq4(w, panel, expanded);
    }
    const int64_t first = panel * kPanelRows;
    const int64_t rows = w.rows - first < kPanelRows ? w.rows - first : kPanelRows;
    for (int64_t token = 0; token < task.tokens; ++token) {
      const int8_t* x = task.quantized.values + token * task.quantized.stride;
      for (int64_t row = 0; row < rows; ++row) {
        const float factor = w.scales[first + row] * task.quantized.scales[token];
        float y = static_cast<float>(dot(expanded + row * cols, x, cols)) * factor;
        if (task.bias != nullptr) y += task.bias[first + row];
        const int64_t at = token * task.y_stride + first + row;
        if (task.added != nullptr) y += task.added[at];
        task.y[at] = y;
      }
    }
  }
}

const QuantizedLayout* quantized_layout_portable(int64_t) { return nullptr; }

}  // namespace tandem::cpu
