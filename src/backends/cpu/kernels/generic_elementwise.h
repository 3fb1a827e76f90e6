// Element-wise kernels, norms, rope, quantization of activations, conversions, argmax. Included after one simd_*.h;
// internal linkage (see simd_portable.h). The tail of a row goes through the same vector code as the rest, so that an
// element's result does not depend on its position.
#pragma once

namespace tandem::cpu {
namespace {

template <typename Op>
inline void map1(const float* x, int64_t count, float* y, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, op(load(x + i)));
  if (i < count) store_n(y + i, op(load_n(x + i, count - i)), count - i);
}

template <typename Op>
inline void map2(const float* a, const float* b, int64_t count, float* y, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(y + i, op(load(a + i), load(b + i)));
  if (i < count) store_n(y + i, op(load_n(a + i, count - i), load_n(b + i, count - i)), count - i);
}

void add(const float* a, const float* b, int64_t count, float* y) {
  map2(a, b, count, y, [](F u, F v) { return u + v; });
}
void mul(const float* a, const float* b, int64_t count, float* y) {
  map2(a, b, count, y, [](F u, F v) { return u * v; });
}
void scale(const float* x, float factor, int64_t count, float* y) {
  map1(x, count, y, [factor](F v) { return v * set1(factor); });
}
void silu(const float* x, int64_t count, float* y) { map1(x, count, y, silu_vector); }
void gelu_tanh(const float* x, int64_t count, float* y) { map1(x, count, y, gelu_tanh_vector); }
void silu_mul(const float* gate, const float* up, int64_t count, float* y) {
  map2(gate, up, count, y, [](F g, F u) { return silu_vector(g) * u; });
}
void gelu_tanh_mul(const float* gate, const float* up, int64_t count, float* y) {
  map2(gate, up, count, y, [](F g, F u) { return gelu_tanh_vector(g) * u; });
}
void softcap(const float* x, float cap, int64_t count, float* y) {
  map1(x, count, y, [cap](F v) { return set1(cap) * tanh_vector(v / set1(cap)); });
}

// The sum over a row of op(vector), in four interleaved vector sums: the order depends on the length alone.
template <typename Op>
inline float sum_row(const float* x, int64_t count, Op op) {
  F sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int64_t j = 0; j < 4 * kLanes; j += 16) __builtin_prefetch(x + i + j + kFetchAhead);
    for (int j = 0; j < 4; ++j) sums[j] = sums[j] + op(load(x + i + j * kLanes), kLanes);
  }
  for (int j = 0; i + kLanes <= count; i += kLanes, ++j) sums[j] = sums[j] + op(load(x + i), kLanes);
  if (i < count) sums[3] = sums[3] + op(load_n(x + i, count - i), count - i);
  return hsum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

void rms_norm(const float* x, int64_t rows, int64_t dim, const float* weight, float weight_offset, float eps,
              float* y) {
  for (int64_t row = 0; row < rows; ++row, x += dim, y += dim) {
    const float squares = sum_row(x, dim, [](F v, int64_t) { return v * v; });
    const float factor = 1.0f / __builtin_sqrtf(squares / static_cast<float>(dim) + eps);
    map2(x, weight, dim, y, [=](F v, F w) { return v * set1(factor) * (w + set1(weight_offset)); });
  }
}

void layer_norm(const float* x, int64_t rows, int64_t dim, const float* weight, const float* bias, float eps,
                float* y) {
  for (int64_t row = 0; row < rows; ++row, x += dim, y += dim) {
    const float mean = sum_row(x, dim, [](F v, int64_t) { return v; }) / static_cast<float>(dim);
    const float squares = sum_row(x, dim, [mean](F v, int64_t n) {
      F d = v - set1(mean);
      // Lanes past the end of the row hold 0 and would count as -mean.
      for (int64_t i = n; i < kLanes; ++i) d[i] = 0.0f;
      return d * d;
    });
    const float factor = 1.0f / __builtin_sqrtf(squares / static_cast<float>(dim) + eps);
    map2(x, weight, dim, y, [=](F v, F w) { return (v - set1(mean)) * set1(factor) * w; });
    if (bias != nullptr) add(y, bias, dim, y);
  }
}

void rope(const float* x, int64_t heads, int64_t dim, int64_t half, const float* cos, const float* sin,
          bool interleaved, float* y) {
  for (int64_t head = 0; head < heads; ++head, x += dim, y += dim) {
    if (const int64_t rest = dim - 2 * half; rest > 0 && x != y) {
      __builtin_memcpy(y + 2 * half, x + 2 * half, static_cast<size_t>(rest) * sizeof(float));
    }
    if (interleaved) {
      for (int64_t i = 0; i < half; ++i) {
        const float a = x[2 * i], b = x[2 * i + 1];
        y[2 * i] = a * cos[i] - b * sin[i];
        y[2 * i + 1] = b * cos[i] + a * sin[i];
      }
      continue;
    }
    int64_t i = 0;
    for (; i + kLanes <= half; i += kLanes) {
      const F a = load(x + i), b = load(x + half + i), c = load(cos + i), s = load(sin + i);
      store(y + i, a * c - b * s);
      store(y + half + i, b * c + a * s);
    }
    if (const int64_t n = half - i; n > 0) {
      const F a = load_n(x + i, n), b = load_n(x + half + i, n), c = load_n(cos + i, n), s = load_n(sin + i, n);
      store_n(y + i, a * c - b * s, n);
      store_n(y + half + i, b * c + a * s, n);
    }
  }
}

// Sums and differences of entries that are `half` apart, in every block of 2 * half.
inline void hadamard_stage(const float* x, int64_t dim, int64_t half, float* y) {
  for (int64_t begin = 0; begin < dim; begin += 2 * half) {
    for (int64_t i = begin; i < begin + half; i += kLanes) {
      const F a = load(x + i), b = load(x + half + i);
      store(y + i, a + b);
      store(y + half + i, a - b);
    }
  }
}

// For heads shorter than two vectors.
inline void small_hadamard(const float* x, int64_t dim, float factor, float* y) {
  for (int64_t half = dim / 2; half > 0; half /= 2, x = y) {
    for (int64_t i = 0; i < dim; ++i) {
      if ((i & half) != 0) continue;
      const float a = x[i], b = x[half + i];
      y[i] = a + b;
      y[half + i] = a - b;
    }
  }
  for (int64_t i = 0; i < dim; ++i) y[i] = x[i] * factor;
}

// From the entries that are furthest apart to neighbours, whatever a vector holds.
void hadamard(const float* x, int64_t heads, int64_t dim, float* y) {
  constexpr int64_t kBlock = 2 * kLanes;
  const float factor = 1.0f / __builtin_sqrtf(static_cast<float>(dim));
  for (int64_t head = 0; head < heads; ++head, x += dim, y += dim) {
    if (dim < kBlock) {
      small_hadamard(x, dim, factor, y);
      continue;
    }
    const float* from = x;
    for (int64_t half = dim / 2; half >= kBlock; half /= 2, from = y) hadamard_stage(from, dim, half, y);
    for (int64_t i = 0; i < dim; i += kBlock) {
      F a = load(from + i), b = load(from + i + kLanes);
      // Zipping brings the next pairs, at half the distance, to the same lanes of the two vectors; and after the last
      // step every entry back to its place.
      for (int64_t half = kLanes; half > 0; half /= 2) {
        const F sum = a + b, difference = a - b;
        a = zip_lo(sum, difference);
        b = zip_hi(sum, difference);
      }
      store(y + i, a * set1(factor));
      store(y + i + kLanes, b * set1(factor));
    }
  }
}

// The nearest integers to x (|x| < 2^22), ties to even, modulo 256.
inline B round_to_bytes(F x) { return low_bytes((U)(x + set1(kRoundMagic))); }

template <typename Op>
inline void map_to_bytes(const float* x, int64_t count, uint8_t* y, Op op) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const B bytes = round_to_bytes(op(load(x + i)));
    __builtin_memcpy(y + i, &bytes, sizeof(bytes));
  }
  if (i < count) {
    const B bytes = round_to_bytes(op(load_n(x + i, count - i)));
    __builtin_memcpy(y + i, &bytes, static_cast<size_t>(count - i));
  }
}

void quantize_rows(const float* x, int64_t x_stride, int64_t rows, int64_t cols, int8_t* quantized, int64_t stride,
                   float* scales) {
  for (int64_t row = 0; row < rows; ++row, x += x_stride, quantized += stride) {
    const RowScale range = find_row_scale(x, cols, 127.0f);
    const float largest = range.largest;
    uint8_t* out = reinterpret_cast<uint8_t*>(quantized);
    scales[row] = range.scale;
    if (!range.has_nonzero) {
      __builtin_memset(out, 0, static_cast<size_t>(stride));
      continue;
    }
    if (!range.is_tiny()) {
      const float inverse = 127.0f / largest;
      map_to_bytes(x, cols, out, [inverse](F v) { return v * set1(inverse); });
    } else {  // The inverse would overflow.
      map_to_bytes(x, cols, out, [largest](F v) { return v / set1(largest) * set1(127.0f); });
    }
    __builtin_memset(out + cols, 0, static_cast<size_t>(stride - cols));
  }
}

// The nearest integers to x, in -32512..32512, as 255 * high + low.
template <typename Op>
inline void map_to_byte_pairs(const float* x, int64_t count, uint8_t* high, uint8_t* low, Op op) {
  const auto split = [&](F v, B& upper, B& lower) {
    const F q = (op(v) + set1(kRoundMagic)) - set1(kRoundMagic);
    // q / 255 is never within 1/510 of a half, and the product is off by 2^-16 at most: this is the nearest integer.
    const F shifted = q * set1(1.0f / 255.0f) + set1(kRoundMagic);
    upper = low_bytes((U)shifted);
    lower = round_to_bytes(q - (shifted - set1(kRoundMagic)) * set1(255.0f));
  };
  B upper, lower;
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    split(load(x + i), upper, lower);
    __builtin_memcpy(high + i, &upper, sizeof(upper));
    __builtin_memcpy(low + i, &lower, sizeof(lower));
  }
  if (i < count) {
    split(load_n(x + i, count - i), upper, lower);
    __builtin_memcpy(high + i, &upper, static_cast<size_t>(count - i));
    __builtin_memcpy(low + i, &lower, static_cast<size_t>(count - i));
  }
}

void quantize_rows_int16(const float* x, int64_t x_stride, int64_t rows, int64_t cols, int8_t* quantized,
                         int64_t stride, float* scales) {
  for (int64_t row = 0; row < rows; ++row, x += x_stride, quantized += 2 * stride) {
    const RowScale range = find_row_scale(x, cols, kInt16Top);
    const float largest = range.largest;
    uint8_t* high = reinterpret_cast<uint8_t*>(quantized);
    uint8_t* low = high + stride;
    scales[2 * row + 1] = range.scale;
    scales[2 * row] = static_cast<float>(kInt16Base) * range.scale;
    if (!range.has_nonzero) {
      __builtin_memset(high, 0, static_cast<size_t>(2 * stride));
      continue;
    }
    if (!range.is_tiny()) {
      const float inverse = kInt16Top / largest;
      map_to_byte_pairs(x, cols, high, low, [inverse](F v) { return v * set1(inverse); });
    } else {  // The inverse would overflow.
      map_to_byte_pairs(x, cols, high, low, [largest](F v) { return v / set1(largest) * set1(kInt16Top); });
    }
    __builtin_memset(high + cols, 0, static_cast<size_t>(stride - cols));
    __builtin_memset(low + cols, 0, static_cast<size_t>(stride - cols));
  }
}

void convert_f16_from_f32(const float* x, int64_t count, uint16_t* y) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store_f16(y + i, load(x + i));
  if (i < count) store_f16_n(y + i, load_n(x + i, count - i), count - i);
}

int64_t argmax(const float* x, int64_t count) {
  constexpr float kLowest = -__builtin_inff();
  // The largest value, then its first index. Comparisons with NaN are false, so NaN is never selected.
  F maxima[4] = {set1(kLowest), set1(kLowest), set1(kLowest), set1(kLowest)};
  int64_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) maxima[j] = vmax(load(x + i + j * kLanes), maxima[j]);
  }
  const F all = vmax(vmax(maxima[0], maxima[1]), vmax(maxima[2], maxima[3]));
  float largest = kLowest;
  for (int64_t lane = 0; lane < kLanes; ++lane) largest = all[lane] > largest ? all[lane] : largest;
  for (; i < count; ++i) largest = x[i] > largest ? x[i] : largest;
  for (i = 0; i < count; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;  // Nothing but NaN, or an empty row.
}

}  // namespace
}  // namespace tandem::cpu
