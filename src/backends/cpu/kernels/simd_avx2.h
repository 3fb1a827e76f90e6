// The vector type of the generic_*.h kernels for AVX2 with FMA and F16C: 8 floats. What each name means is in
// simd_portable.h.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace tandem::cpu {
namespace {

constexpr int64_t kLanes = 8;
typedef __m256 F;
typedef uint32_t U __attribute__((vector_size(32)));
typedef int32_t I __attribute__((vector_size(32)));
typedef uint8_t B __attribute__((vector_size(8)));

// 12 accumulators of 16 registers.
constexpr int kTileTokens = 6;
constexpr int kTilePanels = 1;
constexpr bool kExpandHalf = false;
constexpr int kDecodePanels = 4;
constexpr int kMatmulRows = 6;
constexpr int kMatmulVectors = 2;

inline F set1(float x) { return _mm256_set1_ps(x); }
inline U set1_bits(uint32_t x) { return U{x, x, x, x, x, x, x, x}; }
inline F set1_pair(const float* p) {
  double pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return _mm256_castpd_ps(_mm256_set1_pd(pair));
}

inline __m256i first_lanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline F load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, F v) { _mm256_storeu_ps(p, v); }
inline F load_n(const float* p, int64_t n) { return _mm256_maskload_ps(p, first_lanes(n)); }
inline void store_n(float* p, F v, int64_t n) { _mm256_maskstore_ps(p, first_lanes(n), v); }

inline F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F vmax(F a, F b) { return _mm256_max_ps(a, b); }
inline F vmin(F a, F b) { return _mm256_min_ps(a, b); }
inline float hmax(F v) {
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}
inline float hsum(F v) {
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline F zip_lo(F a, F b) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20); }
inline F zip_hi(F a, F b) { return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31); }
inline F add_pairs(F a, F b) {
  const __m256d mixed = _mm256_castps_pd(_mm256_hadd_ps(a, b));  // Two of a, two of b, two of a, two of b.
  return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}

inline B low_bytes(U v) {
  const __m256i order = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                         0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i fours = _mm256_shuffle_epi8((__m256i)v, order);
  const __m128i bytes = _mm_unpacklo_epi32(_mm256_castsi256_si128(fours), _mm256_extracti128_si256(fours, 1));
  return __builtin_bit_cast(B, _mm_cvtsi128_si64(bytes));
}

inline F load_f16(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
inline F load_bf16(const uint16_t* p) {
  const __m128i half = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}
inline F load_u8(const uint8_t* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline F load_f16_n(const uint16_t* p, int64_t n) {
  uint16_t buffer[kLanes] = {};
  __builtin_memcpy(buffer, p, static_cast<size_t>(n) * sizeof(uint16_t));
  return load_f16(buffer);
}
inline F load_u8_n(const uint8_t* p, int64_t n) {
  uint8_t buffer[kLanes] = {};
  __builtin_memcpy(buffer, p, static_cast<size_t>(n));
  return load_u8(buffer);
}
inline void store_f16(uint16_t* p, F v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
inline void store_f16_n(uint16_t* p, F v, int64_t n) {
  uint16_t buffer[kLanes];
  store_f16(buffer, v);
  __builtin_memcpy(p, buffer, static_cast<size_t>(n) * sizeof(uint16_t));
}

typedef int16_t W __attribute__((vector_size(32)));
typedef __m256i PairSums;
constexpr int kWordRows = 5;  // 10 sums, two right sides, one left side and a product.
constexpr int kWordVectors = 2;
inline PairSums add_products(PairSums s, W a, W b) {
  return _mm256_add_epi32(s, _mm256_madd_epi16((__m256i)a, (__m256i)b));
}
inline F float_sums(PairSums s) { return _mm256_cvtepi32_ps(s); }
inline W set1_words(const int16_t* p) {
  int pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return (W)_mm256_set1_epi32(pair);
}
inline W load_words(const int16_t* p) { return (W)_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void store_words(int16_t* p, W v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)v); }
inline W load_bytes(const uint8_t* p) {
  return (W)_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

}  // namespace
}  // namespace tandem::cpu
