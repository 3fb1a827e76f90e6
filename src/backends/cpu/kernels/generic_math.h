// exp, tanh, exp2 and log2 over vectors, and a row's largest magnitude. Included after one simd_*.h; internal linkage
// (see simd_portable.h).
//
// Largest errors against double-precision libm, measured over every seventh float whose result is normal: exp 1.1 ulp,
// tanh 1.4 ulp, silu 3.2 ulp. Infinities and NaN behave as in libm.
#pragma once

namespace tandem::cpu {
namespace {

constexpr float kRoundMagic = 0x1.8p23f;  // Adding it rounds |x| < 2^22 to an integer, ties to even.

inline F abs_bits_clear(F x) { return (F)((U)x & 0x7fffffffu); }

// Transposes a kLanes x kLanes block in place: zipping row i with row i + kLanes / 2 rotates the index bits by one, and
// log2(kLanes) such rounds exchange rows and columns.
inline void transpose(F (&block)[kLanes]) {
  TANDEM_UNROLL for (int64_t round = 1; round < kLanes; round *= 2) {
    F next[kLanes];
    TANDEM_UNROLL for (int64_t i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = zip_lo(block[i], block[i + kLanes / 2]);
      next[2 * i + 1] = zip_hi(block[i], block[i + kLanes / 2]);
    }
    TANDEM_UNROLL for (int64_t i = 0; i < kLanes; ++i) block[i] = next[i];
  }
}

inline F exp_vector(F x) {
  // Beyond these the result is infinity or zero. NaN passes through.
  x = vmax(set1(-105.0f), vmin(set1(89.0f), x));
  // x = n ln 2 + r. ln 2 is split so that n times its first part is exact.
  const F shifted = fma(x, set1(1.44269504f), set1(kRoundMagic));
  const F n = shifted - set1(kRoundMagic);
  F r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  // exp(r) = 1 + r + r^2 q(r), q interpolated at Chebyshev nodes of |r| <= 0.3467; relative error 8e-9.
  F q = fma(r, set1(0.0013926203361f), set1(0.0083631948824f));
  q = fma(r, q, set1(0.0416665544984f));
  q = fma(r, q, set1(0.1666657689461f));
  q = fma(r, q, set1(0.5f));
  const F p = fma(r * r, q, r) + set1(1.0f);
#ifdef TANDEM_SIMD_SCALES
  return times_power_of_2(p, n);
#else
  // 2^n as the product of two powers, because n reaches 128 (overflow) and -151 (denormals).
  const U bits = (U)shifted - (U)set1(kRoundMagic);
  const U half = (bits + 256u) >> 1;  // floor(n / 2) + 128
  return p * (F)((half - 1u) << 23) * (F)((bits - half + 255u) << 23);
#endif
}

// exp(x) for x <= 0; below exp(-86) the result is 0, because CPUs are slow on denormals.
inline F exp_of_negative(F x) { return x < set1(-86.0f) ? set1(0.0f) : exp_vector(vmax(set1(-86.0f), x)); }

// 2^x for x <= 0: relative error 2e-7 + half an ulp. Below 2^-125 the result is 0, as above.
inline F exp2_of_negative(F x) {
  const F bounded = vmax(set1(-125.0f), x);
  const F shifted = bounded + set1(kRoundMagic);
  const F n = shifted - set1(kRoundMagic);
  const F f = bounded - n;
  // 1 + f p(f), p interpolated at Chebyshev nodes of |f| <= 0.5.
  F p = fma(f, set1(0.001338130254f), set1(0.009666368515f));
  p = fma(f, p, set1(0.05550381014f));
  p = fma(f, p, set1(0.2402234904f));
  p = fma(f, p, set1(0.6931471806f));
  p = fma(f, p, set1(1.0f));
#ifdef TANDEM_SIMD_SCALES
  const F power = times_power_of_2(p, n);
#else
  const F power = (F)((U)p + ((U)shifted << 23));  // The lowest bits of kRoundMagic are 0.
#endif
  return x < set1(-125.0f) ? set1(0.0f) : power;
}

// The logarithm to base 2 of a normal x > 0, off by 2e-8 + half an ulp.
inline F log2_vector(F x) {
  // x = 2^n (1 + f) with 1 + f between sqrt(1/2) and sqrt(2).
  const U above = (U)x - 0x3f3504f3u;
  const F n = __builtin_convertvector((I)above >> 23, F);
  const F f = (F)((above & 0x7fffffu) + 0x3f3504f3u) - set1(1.0f);
  F p = fma(f, set1(0.1231096846f), set1(-0.2058618805f));
  p = fma(f, p, set1(0.2160782255f));
  p = fma(f, p, set1(-0.2391698814f));
  p = fma(f, p, set1(0.2879032609f));
  p = fma(f, p, set1(-0.3606932681f));
  p = fma(f, p, set1(0.4809107535f));
  p = fma(f, p, set1(-0.7213474682f));
  p = fma(f, p, set1(1.442695004f));
  return fma(f, p, n);
}

inline F tanh_vector(F x) {
  const F a = abs_bits_clear(x);
  const F z = x * x;
  // Near zero: x + x^3 P(x^2), interpolated for |x| <= 0.625.
  F p = fma(z, set1(0.0022927448135f), set1(-0.0083439455129f));
  p = fma(z, p, set1(0.0217689186499f));
  p = fma(z, p, set1(-0.0539592595770f));
  p = fma(z, p, set1(0.1333330355691f));
  p = fma(z, p, set1(-0.3333333317214f));
  const F small = fma(x * z, p, x);
  const F large = set1(1.0f) - set1(2.0f) / (exp_vector(a + a) + set1(1.0f));
  const F signed_large = (F)((U)large | ((U)x & 0x80000000u));
  return a < set1(0.625f) ? small : signed_large;
}

// x * sigmoid(u), without overflow of exp and without the cancellation of 1 + tanh.
inline F times_sigmoid(F x, F u) {
  const F e = exp_vector((F)((U)u | 0x80000000u));
  const F numerator = u >= set1(0.0f) ? set1(1.0f) : e;
  // -infinity becomes the smallest finite number, so that its product with 0 is 0 and not NaN.
  const F finite = x < set1(-0x1.fffffep127f) ? set1(-0x1.fffffep127f) : x;
  return finite * numerator / (e + set1(1.0f));
}

inline F silu_vector(F x) { return times_sigmoid(x, x); }

// 0.5 x (1 + tanh(u)) = x sigmoid(2u), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline F gelu_tanh_vector(F x) {
  const F cubic = fma(x * x, set1(0.044715f) * x, x);
  return times_sigmoid(x, cubic * set1(1.5957691216f));
}

// Distance in floats of the prefetch where a row is read for the first time: the next row mostly follows it, and CPUs
// do not prefetch across pages on their own.
constexpr int64_t kFetchAhead = 1024;

constexpr uint32_t kInfinityBits = 0x7f800000u;

// The bits of the largest |x|; above kInfinityBits - 1 if one is infinite or NaN.
inline uint32_t max_magnitude_bits(const float* x, int64_t count) {
  I largest = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    if (i % 16 == 0) __builtin_prefetch(x + i + kFetchAhead);
    const I bits = (I)((U)load(x + i) & 0x7fffffffu);
    largest = bits > largest ? bits : largest;
  }
  if (i < count) {
    const I bits = (I)((U)load_n(x + i, count - i) & 0x7fffffffu);
    largest = bits > largest ? bits : largest;
  }
  int32_t result = 0;
  for (int64_t lane = 0; lane < kLanes; ++lane) result = largest[lane] > result ? largest[lane] : result;
  return static_cast<uint32_t>(result);
}

// The symmetric scale of a row, for quantized values up to `top` in magnitude (numerics/fake_quant.h).
struct RowScale {
  float largest;
  float scale;       // largest / top; NaN for a row with a non-finite number, so that it stays visible.
  bool has_nonzero;  // If not, all quantized values are 0.

  // top / largest would overflow.
  bool is_tiny() const { return largest <= 1e-30f; }
};
inline RowScale find_row_scale(const float* x, int64_t count, float top) {
  const uint32_t bits = max_magnitude_bits(x, count);
  const float largest = __builtin_bit_cast(float, bits);
  return {largest, bits >= kInfinityBits ? __builtin_nanf("") : largest / top, bits != 0 && bits < kInfinityBits};
}

}  // namespace
}  // namespace tandem::cpu
