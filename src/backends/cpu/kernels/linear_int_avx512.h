// What the integer linear layers for AVX-512 share, whichever instruction multiplies. Included after simd_avx512vnni.h;
// internal linkage (see simd_portable.h).
#pragma once

#include <immintrin.h>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {
namespace {

inline int64_t padded(int64_t cols) { return (cols + kColAlign - 1) / kColAlign * kColAlign; }

// Scales the sums of P panels and writes them to y. Loop invariants are read once: otherwise the compiler must assume
// that each store to y changes the task, which cost 2 % of the time of a layer with 1024 columns.
template <int P>
class SumsWriter {
 public:
  SumsWriter(const LinearTask& task, int64_t panel)
      : token_scales_(task.quantized.scales),
        has_bias_(task.bias != nullptr),
        added_(task.added == nullptr ? nullptr : task.added + panel * kPanelRows),
        y_(task.y + panel * kPanelRows),
        stride_(task.y_stride) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) {
      const int64_t row = (panel + p) * kPanelRows, left = task.weight->rows - row;
      masks_[p] = left >= kPanelRows ? __mmask16{0xffff} : static_cast<__mmask16>((1u << left) - 1);
      scales_[p] = _mm512_loadu_ps(task.weight->scales + row);
      bias_[p] = has_bias_ ? _mm512_maskz_loadu_ps(masks_[p], task.bias + row) : _mm512_setzero_ps();
    }
  }

  // For T tokens.
  template <int T>
  void write(int64_t token, const __m512i (&sums)[T][P]) const {
    if (!has_bias_ && added_ == nullptr) {
      write_as<T, false>(token, sums);
    } else {
      write_as<T, true>(token, sums);
    }
  }

 private:
  template <int T, bool Adds>
  void write_as(int64_t token, const __m512i (&sums)[T][P]) const {
    int64_t at = token * stride_;
    TANDEM_UNROLL for (int t = 0; t < T; ++t, at += stride_) {
      const __m512 scale = _mm512_set1_ps(token_scales_[token + t]);
      asm("" : "+r"(at));  // Otherwise GCC 12 computes the addresses of all results first and spills them.
      TANDEM_UNROLL for (int p = 0; p < P; ++p) {
        __m512 y = _mm512_mul_ps(_mm512_cvtepi32_ps(sums[t][p]), _mm512_mul_ps(scales_[p], scale));
        if constexpr (Adds) {
          // No bias of 0 where there is none: -0 would become 0.
          if (has_bias_) y = _mm512_add_ps(y, bias_[p]);
          if (added_ != nullptr) y = _mm512_add_ps(y, _mm512_maskz_loadu_ps(masks_[p], added_ + at + p * kPanelRows));
        }
        _mm512_mask_storeu_ps(y_ + at + p * kPanelRows, masks_[p], y);
      }
    }
  }

  const float* token_scales_;
  bool has_bias_;
  const float* added_;
  float* y_;
  int64_t stride_;
  __mmask16 masks_[P];
  __m512 scales_[P], bias_[P];
};

// How many panels, a multiple of `step`, have at most `bytes` bytes as int8: they stay in the second-level cache while
// all tokens are processed.
inline int64_t panels_at_once(int64_t cols, int64_t bytes, int64_t step) {
  const int64_t panels = bytes / (kPanelRows * cols) / step * step;
  return panels < step ? step : panels;
}

// Prefetches the packed panels that will probably be needed next, the `count` ones from panel `end` on, into the
// second-level cache, a part at a time while the panels before them are multiplied: otherwise expanding them waits for
// memory.
class NextPanels {
 public:
  // In `parts` parts.
  NextPanels(const PackedMatrix& w, int64_t end, int64_t count, int64_t parts) {
    const int64_t panel_bytes = kPanelRows * padded(w.cols) / (w.format == WeightFormat::kLpbq4 ? 2 : 1);
    const int64_t panels = (w.rows + kPanelRows - 1) / kPanelRows, last = end + count < panels ? end + count : panels;
    at_ = w.data + (end < last ? end : last) * panel_bytes;
    end_ = w.data + last * panel_bytes;
    part_ = ((end_ - at_) / parts + 64) / 64 * 64;
  }
  void fetch_part() {
    const uint8_t* const stop = end_ - at_ < part_ ? end_ : at_ + part_;
    for (; at_ < stop; at_ += 64) _mm_prefetch(reinterpret_cast<const char*>(at_), _MM_HINT_T1);
  }

 private:
  const uint8_t* at_;
  const uint8_t* end_;
  int64_t part_;
};

// Whether the bytes of an expanded panel are the weights, or weights + 128 (for a multiplier that wants them unsigned).
enum Expanded { kSigned, kPlus128 };

// Expands one panel of nibbles to bytes of multiplier * q, laid out like a kI8 panel. A nibble times a multiplier is at
// most 15 * 16, so a 16-bit product of two nibbles with one multiplier has no carry between its bytes.
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
    // Nibbles are q + 8. The shift stays in its byte because m <= 16.
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
