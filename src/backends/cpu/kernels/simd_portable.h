// The vector type that the generic_*.h kernels are written in, for any CPU: 4 floats as a compiler vector extension
// (SSE2 on x86-64, NEON on ARM). A source file includes exactly one simd_*.h, then the generic ones; everything has
// internal linkage, so that the linker never mixes code built for different instruction sets.
//
// Each simd_*.h defines kLanes, the types F (floats) and U (their bits), and the functions below; + - * / < > == ?: and
// bit operations come from the compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/half.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kLanes = 4;
typedef float F __attribute__((vector_size(16)));
typedef uint32_t U __attribute__((vector_size(16)));
typedef int32_t I __attribute__((vector_size(16)));
typedef uint8_t B __attribute__((vector_size(4)));  // One byte per lane.
typedef uint16_t Half4 __attribute__((vector_size(8)));

// Register tiles: tokens x panels x (16 / kLanes) accumulators, which must fit 16 registers.
constexpr int kTileTokens = 2;
constexpr int kTilePanels = 1;
// Whether 16-bit weights are converted once per panel and block of tokens rather than once per tile.
constexpr bool kExpandHalf = true;
constexpr int kDecodePanels = 1;
// Tile of attention's matrix products: rows x vectors.
constexpr int kMatmulRows = 2;
constexpr int kMatmulVectors = 4;

inline F set1(float x) { return F{x, x, x, x}; }
inline U set1_bits(uint32_t x) { return U{x, x, x, x}; }
// p[0] in the even lanes, p[1] in the odd ones.
inline F set1_pair(const float* p) { return F{p[0], p[1], p[0], p[1]}; }

inline F load(const float* p) {
  F v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void store(float* p, F v) { __builtin_memcpy(p, &v, sizeof(v)); }
// The first n < kLanes lanes; the others load as 0 and are not stored.
inline F load_n(const float* p, int64_t n) {
  F v = {};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(float));
  return v;
}
inline void store_n(float* p, F v, int64_t n) { __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(float)); }

inline F fma(F a, F b, F c) { return a * b + c; }
// Maximum and minimum; b if either is NaN.
inline F vmax(F a, F b) { return a > b ? a : b; }
inline F vmin(F a, F b) { return a < b ? a : b; }
// Over all lanes, none of which is NaN.
inline float hmax(F v) {
  const float a = v[0] > v[1] ? v[0] : v[1], b = v[2] > v[3] ? v[2] : v[3];
  return a > b ? a : b;
}
inline float hsum(F v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline F zip_lo(F a, F b) { return F{a[0], b[0], a[1], b[1]}; }
inline F zip_hi(F a, F b) { return F{a[2], b[2], a[3], b[3]}; }
// Sums of neighbours: of a's, then of b's.
inline F add_pairs(F a, F b) { return F{a[0] + a[1], a[2] + a[3], b[0] + b[1], b[2] + b[3]}; }

// The lowest byte of each lane.
inline B low_bytes(U v) { return __builtin_convertvector(v, B); }

inline F load_f16(const uint16_t* p) {
  Half4 half;
  __builtin_memcpy(&half, p, sizeof(half));
  const U bits = __builtin_convertvector(half, U);
  const U magnitude = (bits & 0x7fffu) << 13;
  // A multiplication moves the exponent from bias 15 to 127, and makes subnormals normal.
  const U finite = (U)((F)magnitude * set1(0x1p112f));
  const U value = magnitude >= set1_bits(0x0f800000u) ? (magnitude | 0x7f800000u) : finite;
  return (F)(value | ((bits & 0x8000u) << 16));
}
inline F load_bf16(const uint16_t* p) {
  Half4 half;
  __builtin_memcpy(&half, p, sizeof(half));
  return (F)(__builtin_convertvector(half, U) << 16);
}
inline F load_u8(const uint8_t* p) {
  B bytes;
  __builtin_memcpy(&bytes, p, sizeof(bytes));
  return __builtin_convertvector(__builtin_convertvector(bytes, U), F);
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
inline void store_f16_n(uint16_t* p, F v, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = f16_from_f32(v[i]);
}
inline void store_f16(uint16_t* p, F v) { store_f16_n(p, v, kLanes); }

// Products of 16-bit integers, in pairs: W has two numbers per lane, and a lane's sum is that of both products.
// PairSums may keep them in any order until float_sums(). No sum overflows 32 bits.
typedef int16_t W __attribute__((vector_size(16)));
struct PairSums {
  I sums = {};
};
constexpr int kWordRows = 2;
constexpr int kWordVectors = 2;
inline PairSums add_products(PairSums s, W a, W b) {
  for (int i = 0; i < 4; ++i) s.sums[i] += a[2 * i] * b[2 * i] + a[2 * i + 1] * b[2 * i + 1];
  return s;
}
inline F float_sums(PairSums s) { return __builtin_convertvector(s.sums, F); }
// p[0] and p[1] for each lane.
inline W set1_words(const int16_t* p) { return W{p[0], p[1], p[0], p[1], p[0], p[1], p[0], p[1]}; }
inline W load_words(const int16_t* p) {
  W v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void store_words(int16_t* p, W v) { __builtin_memcpy(p, &v, sizeof(v)); }
// 2 * kLanes bytes, 0 to 255 each.
inline W load_bytes(const uint8_t* p) {
  W v;
  for (int i = 0; i < 8; ++i) v[i] = p[i];
  return v;
}

}  // namespace
}  // namespace tandem::cpu
