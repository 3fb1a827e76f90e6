// The vector type of the generic_*.h kernels for AVX-512: 16 floats. What each name means is in simd_portable.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tandem::cpu {
namespace {

constexpr int64_t kLanes = 16;
typedef __m512 F;
typedef uint32_t U __attribute__((vector_size(64)));
typedef int32_t I __attribute__((vector_size(64)));
typedef uint8_t B __attribute__((vector_size(16)));

// 24 accumulators of 32 registers.
constexpr int kTileTokens = 12;
constexpr int kTilePanels = 2;
constexpr bool kExpandHalf = false;
constexpr int kDecodePanels = 4;
constexpr int kMatmulRows = 6;
constexpr int kMatmulVectors = 4;

inline F set1(float x) { return _mm512_set1_ps(x); }
inline U set1_bits(uint32_t x) { return (U)_mm512_set1_epi32(static_cast<int>(x)); }
inline F set1_pair(const float* p) {
  double pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return _mm512_castpd_ps(_mm512_set1_pd(pair));
}

inline __mmask16 first_lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline F load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, F v) { _mm512_storeu_ps(p, v); }
inline F load_n(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
inline void store_n(float* p, F v, int64_t n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }

inline F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
inline F vmax(F a, F b) { return _mm512_max_ps(a, b); }
inline F vmin(F a, F b) { return _mm512_min_ps(a, b); }
// p * 2^n for an integer n, rounded once: optional in a simd_*.h, announced by this macro.
#define TANDEM_SIMD_SCALES
inline F times_power_of_2(F p, F n) { return _mm512_scalef_ps(p, n); }
inline float hmax(F v) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline float hsum(F v) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline F zip_lo(F a, F b) {
  const __m512i index = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_ps(a, index, b);
}
inline F zip_hi(F a, F b) {
  const __m512i index = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_ps(a, index, b);
}

inline F add_pairs(F a, F b) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_add_ps(_mm512_permutex2var_ps(a, even, b), _mm512_permutex2var_ps(a, odd, b));
}

inline B low_bytes(U v) { return (B)_mm512_cvtepi32_epi8((__m512i)v); }

inline F load_f16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F load_bf16(const uint16_t* p) {
  const __m256i half = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}
inline F load_u8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline F load_f16_n(const uint16_t* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_lanes(n), p));
}
inline F load_u8_n(const uint8_t* p, int64_t n) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(first_lanes(n), p)));
}
inline void store_f16(uint16_t* p, F v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_f16_n(uint16_t* p, F v, int64_t n) {
  _mm256_mask_storeu_epi16(p, first_lanes(n), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

// Stores every second number from `to` on. The memory in between is not touched, not even rewritten with its old value:
// another thread may be writing there.
#define TANDEM_SIMD_SPREADS
inline void store_every_second(float* to, const float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[2 * i] = numbers[i];
}
inline void store_every_second(uint16_t* to, const uint16_t* numbers, int64_t count) {
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 some = count - i >= 16 ? static_cast<__mmask16>(0xffff) : first_lanes(count - i);
    const __m512i spread = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, numbers + i));
    _mm512_mask_storeu_epi16(to + 2 * i, _pdep_u32(some, 0x55555555u), spread);
  }
}
inline void store_every_second(uint8_t* to, const uint8_t* numbers, int64_t count) {
  for (int64_t i = 0; i < count; i += 32) {
    const __mmask32 some = count - i >= 32 ? 0xffffffffu : (1u << (count - i)) - 1;
    const __m512i spread = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(some, numbers + i));
    _mm512_mask_storeu_epi8(to + 2 * i, _pdep_u64(some, 0x5555555555555555u), spread);
  }
}

typedef int16_t W __attribute__((vector_size(64)));
typedef __m512i PairSums;
constexpr int kWordRows = 6;
constexpr int kWordVectors = 4;
// vpdpwssd. In assembly for GCC 12, which copies arrays of the sums around otherwise.
inline PairSums add_products(PairSums s, W a, W b) {
#ifdef __clang__
  return _mm512_dpwssd_epi32(s, (__m512i)a, (__m512i)b);
#else
  asm("vpdpwssd %2, %1, %0" : "+v"(s) : "v"((__m512i)a), "v"((__m512i)b));
  return s;
#endif
}
inline F float_sums(PairSums s) { return _mm512_cvtepi32_ps(s); }
inline W set1_words(const int16_t* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return (W)_mm512_set1_epi32(pair);
}
inline W load_words(const int16_t* p) { return (W)_mm512_loadu_si512(p); }
inline void store_words(int16_t* p, W v) { _mm512_storeu_si512(p, (__m512i)v); }
inline W load_bytes(const uint8_t* p) {
  return (W)_mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

}  // namespace
}  // namespace tandem::cpu
