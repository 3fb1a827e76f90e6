// What integer linear layers share with AVX-512, whatever multiplies. Included after simd_avx512vnni.h; internal
// linkage (see simd_portable.h).
#pragma once

#include <immintrin.h>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {
namespace {

inline int64_t padded(int64_t cols) { return (cols + kColAlign - 1) / kColAlign * kColAlign; }

// The sums of one token and panel, scaled, to y.
inline void store_sums(const LinearTask& task, int64_t panel, int64_t token, __m512i sums) {
  const int64_t row = panel * kPanelRows;
  const int64_t left = task.weight->rows - row;
  const __mmask16 mask = left >= kPanelRows ? __mmask16{0xffff} : static_cast<__mmask16>((1u << left) - 1);
  const __m512 factor =
      _mm512_mul_ps(_mm512_loadu_ps(task.weight->scales + row), _mm512_set1_ps(task.quantized.scales[token]));
  __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums), factor);
  if (task.bias != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, task.bias + row));
  const int64_t at = token * task.y_stride + row;
  if (task.added != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(mask, task.added + at));
  _mm512_mask_storeu_ps(task.y + at, mask, y);
}

// How many panels, a multiple of `step`, have at most so many bytes as int8: they stay in the second-level cache while
// all tokens pass by.
inline int64_t panels_at_once(int64_t cols, int64_t bytes, int64_t step) {
  const int64_t panels = bytes / (kPanelRows * cols) / step * step;
  return panels < step ? step : panels;
}

// Whether the bytes of an expanded panel are the weights, or weights + 128 (for a multiplier that wants them unsigned).
enum Expanded { kSigned, kPlus128 };

// One panel of nibbles to bytes of multiplier * code, laid out like a kI8 panel. A nibble times a multiplier is at most
// 15 * 16, so a 16-bit product of two nibbles with one multiplier has no carry between its bytes.
template <Expanded E>
void expand_panel(const PackedMatrix& w, int64_t panel, uint8_t* out) {
  const int64_t cols = padded(w.cols);
  const uint8_t* data = w.data + panel * kPanelRows * cols / 2;
  const uint8_t* multipliers = w.multipliers + panel * kPanelRows * (cols / w.block);
  const __m512i low = _mm512_set1_epi8(15);
  const __m512i origin = _mm512_set1_epi8(E == kPlus128 ? -128 : 0);
  const int64_t groups = w.block / 8;
  for (int64_t col = 0; col < cols; col += w.block, multipliers += kPanelRows) {
    const __m512i m32 = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(multipliers)));
    const __m512i m16 = _mm512_or_si512(m32, _mm512_slli_epi32(m32, 16));
    const __m512i m8 = _mm512_or_si512(m16, _mm512_slli_epi16(m16, 8));
    // Nibbles are codes + 8. The shift stays in its byte because m <= 16.
    const __m512i offset = _mm512_sub_epi8(origin, _mm512_slli_epi16(m8, 3));
    for (int64_t g = 0; g < groups; ++g, data += 64, out += 128) {
      const __m512i bytes = _mm512_loadu_si512(data);
      const __m512i first = _mm512_and_si512(bytes, low);
      const __m512i second = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
      _mm512_storeu_si512(out, _mm512_add_epi8(_mm512_mullo_epi16(first, m16), offset));
      _mm512_storeu_si512(out + 64, _mm512_add_epi8(_mm512_mullo_epi16(second, m16), offset));
    }
  }
}

}  // namespace
}  // namespace tandem::cpu
