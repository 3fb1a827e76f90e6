// The vector type of the generic_*.h kernels for 64-bit ARM (every CPU has what is used here): 4 floats with fused
// multiply-adds and conversions of half floats. What each name means is in simd_portable.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>

namespace tandem::cpu {
namespace {

constexpr int64_t kLanes = 4;
// Not float32x4_t: compilers disagree on the operators that it has.
typedef float F __attribute__((vector_size(16)));
typedef uint32_t U __attribute__((vector_size(16)));
typedef int32_t I __attribute__((vector_size(16)));
typedef uint8_t B __attribute__((vector_size(4)));

// 16 accumulators of 32 registers. Tiles of more tokens than lanes cannot be interleaved (generic_interleave.h).
constexpr int kTileTokens = 4;
constexpr int kTilePanels = 1;
constexpr bool kExpandHalf = false;  // One instruction for four weights, which serve four tokens.
constexpr int kDecodePanels = 2;     // 8 accumulators: two pipes times the latency of a multiply-add.
constexpr int kMatmulRows = 4;
constexpr int kMatmulVectors = 4;

inline float32x4_t neon(F v) { return (float32x4_t)v; }

inline F set1(float x) { return F{x, x, x, x}; }
inline U set1_bits(uint32_t x) { return U{x, x, x, x}; }
inline F set1_pair(const float* p) {
  const float32x2_t pair = vld1_f32(p);
  return (F)vcombine_f32(pair, pair);
}

inline F load(const float* p) { return (F)vld1q_f32(p); }
inline void store(float* p, F v) { vst1q_f32(p, neon(v)); }
inline F load_n(const float* p, int64_t n) {
  float32x4_t v = vdupq_n_f32(0.0f);
  if (n >= 1) v = vld1q_lane_f32(p, v, 0);
  if (n >= 2) v = vld1q_lane_f32(p + 1, v, 1);
  if (n >= 3) v = vld1q_lane_f32(p + 2, v, 2);
  return (F)v;
}
inline void store_n(float* p, F v, int64_t n) {
  if (n >= 1) vst1q_lane_f32(p, neon(v), 0);
  if (n >= 2) vst1q_lane_f32(p + 1, neon(v), 1);
  if (n >= 3) vst1q_lane_f32(p + 2, neon(v), 2);
}

inline F fma(F a, F b, F c) { return (F)vfmaq_f32(neon(c), neon(a), neon(b)); }
inline F vmax(F a, F b) { return (F)vbslq_f32(vcgtq_f32(neon(a), neon(b)), neon(a), neon(b)); }
inline F vmin(F a, F b) { return (F)vbslq_f32(vcltq_f32(neon(a), neon(b)), neon(a), neon(b)); }
inline float hmax(F v) { return vmaxvq_f32(neon(v)); }
inline float hsum(F v) {
  const float32x2_t two = vadd_f32(vget_low_f32(neon(v)), vget_high_f32(neon(v)));
  return vget_lane_f32(vpadd_f32(two, two), 0);
}
inline F zip_lo(F a, F b) { return (F)vzip1q_f32(neon(a), neon(b)); }
inline F zip_hi(F a, F b) { return (F)vzip2q_f32(neon(a), neon(b)); }
inline F add_pairs(F a, F b) { return (F)vpaddq_f32(neon(a), neon(b)); }

inline B low_bytes(U v) {
  const uint16x4_t halves = vmovn_u32((uint32x4_t)v);
  const uint8x8_t bytes = vmovn_u16(vcombine_u16(halves, halves));
  return __builtin_bit_cast(B, vget_lane_u32(vreinterpret_u32_u8(bytes), 0));
}

inline F load_f16(const uint16_t* p) { return (F)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
inline F load_bf16(const uint16_t* p) { return (F)vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vld1_u16(p)), 16)); }
inline F load_u8(const uint8_t* p) {
  uint32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  const uint16x8_t halfwords = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word)));
  return (F)vcvtq_f32_u32(vmovl_u16(vget_low_u16(halfwords)));
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
inline void store_f16(uint16_t* p, F v) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(neon(v)))); }
inline void store_f16_n(uint16_t* p, F v, int64_t n) {
  uint16_t buffer[kLanes];
  store_f16(buffer, v);
  __builtin_memcpy(p, buffer, static_cast<size_t>(n) * sizeof(uint16_t));
}

typedef int16_t W __attribute__((vector_size(16)));
struct PairSums {
  I low = {}, high = {};  // Products of the first and the last two lanes.
};
constexpr int kWordRows = 4;
constexpr int kWordVectors = 2;  // 16 accumulators.
inline PairSums add_products(PairSums s, W a, W b) {
  const int16x8_t left = (int16x8_t)a, right = (int16x8_t)b;
  s.low = (I)vmlal_s16((int32x4_t)s.low, vget_low_s16(left), vget_low_s16(right));
  s.high = (I)vmlal_high_s16((int32x4_t)s.high, left, right);
  return s;
}
inline F float_sums(PairSums s) { return (F)vcvtq_f32_s32(vpaddq_s32((int32x4_t)s.low, (int32x4_t)s.high)); }
inline W set1_words(const int16_t* p) {
  int32_t pair;
  __builtin_memcpy(&pair, p, sizeof(pair));
  return (W)vdupq_n_s32(pair);
}
inline W load_words(const int16_t* p) { return (W)vld1q_s16(p); }
inline void store_words(int16_t* p, W v) { vst1q_s16(p, (int16x8_t)v); }
inline W load_bytes(const uint8_t* p) { return (W)vmovl_u8(vld1_u8(p)); }

}  // namespace
}  // namespace tandem::cpu
