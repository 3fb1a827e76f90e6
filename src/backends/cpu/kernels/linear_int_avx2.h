// What the two integer linear kernels for AVX2 share; internal linkage, included by them only.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"

namespace tandem::cpu {
namespace {

inline int64_t padded(int64_t cols) { return (cols + kColAlign - 1) / kColAlign * kColAlign; }

inline __m256i broadcast4(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return _mm256_set1_epi32(word);
}

inline __m256i load_bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }

// Rows [row, row + 8) of one token.
inline void store_sums(const LinearTask& task, int64_t row, int64_t token, __m256i sums) {
  const int64_t left = task.weight->rows - row;
  if (left <= 0) return;
  const __m256i mask = _mm256_cmpgt_epi32(_mm256_set1_epi32(left < 8 ? static_cast<int>(left) : 8),
                                          _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  const __m256 factor =
      _mm256_mul_ps(_mm256_loadu_ps(task.weight->scales + row), _mm256_set1_ps(task.quantized.scales[token]));
  __m256 y = _mm256_mul_ps(_mm256_cvtepi32_ps(sums), factor);
  if (task.bias != nullptr) y = _mm256_add_ps(y, _mm256_maskload_ps(task.bias + row, mask));
  const int64_t at = token * task.y_stride + row;
  if (task.added != nullptr) y = _mm256_add_ps(y, _mm256_maskload_ps(task.added + at, mask));
  _mm256_maskstore_ps(task.y + at, mask, y);
}

}  // namespace
}  // namespace tandem::cpu
