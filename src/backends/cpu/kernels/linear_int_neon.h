// What the integer linear kernels for 64-bit ARM share; internal linkage, included by them only. Nothing here needs
// more than Armv8.0.
#pragma once

#include <arm_neon.h>

#include <cstddef>

#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"

namespace tandem::cpu {
namespace {

// A panel is 4 quads of 4 rows; a vector of 16 bytes has 4 neighbouring inputs of each row of a quad.
constexpr int kQuads = 4;
constexpr int64_t kPrefetchBytes = 1024;

inline int64_t padded(int64_t cols) { return (cols + kColAlign - 1) / kColAlign * kColAlign; }

inline int8x16_t load_bytes(const int8_t* p) { return vld1q_s8(p); }

inline const int8_t* panel_bytes(const PackedMatrix& w, int64_t panel) {
  return reinterpret_cast<const int8_t*>(w.data) + panel * kPanelRows * padded(w.cols);
}
inline const uint8_t* panel_nibbles(const PackedMatrix& w, int64_t panel) {
  return w.data + panel * kPanelRows * padded(w.cols) / 2;
}
inline const uint8_t* panel_multipliers(const PackedMatrix& w, int64_t panel) {
  return w.multipliers + panel * kPanelRows * (padded(w.cols) / w.block);
}
inline const int8_t* quantized_row(const LinearTask& task, int64_t token) {
  return task.quantized.values + token * task.quantized.stride;
}

// Nibbles of 16 bytes, 0..15.
inline int8x16_t low_nibbles(uint8x16_t bytes) { return vreinterpretq_s8_u8(vandq_u8(bytes, vdupq_n_u8(15))); }
inline int8x16_t high_nibbles(uint8x16_t bytes) { return vreinterpretq_s8_u8(vshrq_n_u8(bytes, 4)); }

// Of the multipliers of a panel's block, those of a quad: one lane each (an index beyond 15 gives 0).
inline int32x4_t quad_multipliers(uint8x16_t all, int quad) {
  constexpr uint32_t kFirst = 0xffffff00u;
  const uint32_t first = kFirst + static_cast<uint32_t>(quad) * 4;
  const uint32x4_t index = {first, first + 1, first + 2, first + 3};
  return vreinterpretq_s32_u8(vqtbl1q_u8(all, vreinterpretq_u8_u32(index)));
}
// The same, four times in each row's four bytes.
inline int8x16_t quad_multiplier_bytes(uint8x16_t all, int quad) {
  const uint32_t first = static_cast<uint32_t>(quad) * 0x04040404u;
  const uint32x4_t index = {first, first + 0x01010101u, first + 0x02020202u, first + 0x03030303u};
  return vreinterpretq_s8_u8(vqtbl1q_u8(all, vreinterpretq_u8_u32(index)));
}

// Rows [row, row + 4) of one token.
inline void store_sums(const LinearTask& task, int64_t row, int64_t token, int32x4_t sums) {
  const int64_t left = task.weight->rows - row;
  if (left <= 0) return;
  const float32x4_t factor = vmulq_n_f32(vld1q_f32(task.weight->scales + row), task.quantized.scales[token]);
  float32x4_t product = vmulq_f32(vcvtq_f32_s32(sums), factor);
  const int64_t at = token * task.y_stride + row;
  if (left >= 4) {
    if (task.bias != nullptr) product = vaddq_f32(product, vld1q_f32(task.bias + row));
    if (task.added != nullptr) product = vaddq_f32(product, vld1q_f32(task.added + at));
    vst1q_f32(task.y + at, product);
    return;
  }
  float last[4];
  vst1q_f32(last, product);
  for (int64_t i = 0; i < left; ++i) {
    if (task.bias != nullptr) last[i] += task.bias[row + i];
    if (task.added != nullptr) last[i] += task.added[at + i];
    task.y[at + i] = last[i];
  }
}

// Calls tile.template run<T>(token) for the largest T and then for what is left of `tokens`.
template <int T, typename Tile>
inline void last_tokens(int64_t token, int64_t tokens, const Tile& tile) {
  if constexpr (T > 0) {
    if (tokens - token == T) {
      tile.template run<T>(token);
    } else {
      last_tokens<T - 1>(token, tokens, tile);
    }
  }
}
template <int T, typename Tile>
inline void all_tokens(int64_t tokens, const Tile& tile) {
  int64_t token = 0;
  for (; token + T <= tokens; token += T) tile.template run<T>(token);
  last_tokens<T - 1>(token, tokens, tile);
}

}  // namespace
}  // namespace tandem::cpu
