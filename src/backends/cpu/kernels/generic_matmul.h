// The matrix products of attention: rows of floats times pairs of rows from a source. Included after one simd_*.h and
// unroll.h; internal linkage (see simd_portable.h).
#pragma once

namespace tandem::cpu {
namespace {

// c[r][..] = factor[r] * c[r][..] + sum over pairs k of a[r][2k] * b(k)[even] + a[r][2k + 1] * b(k)[odd], R rows by V
// vectors: the two products of a pair stay separate, in even and odd columns. Without a factor c starts at 0.
template <int R, int V, typename LoadB>
inline void matmul_tile(const float* a, int64_t a_stride, int64_t pairs, LoadB&& load_b, float* c, int64_t c_stride,
                        const float* factor) {
  F sum[R][V] = {};
  if (factor != nullptr) {
    TANDEM_UNROLL for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = load(c + r * c_stride + v * kLanes) * set1(factor[r]);
    }
  }
  for (int64_t k = 0; k < pairs; ++k) {
    F right[V];
    TANDEM_UNROLL for (int v = 0; v < V; ++v) right[v] = load_b(k, v * kLanes);
    TANDEM_UNROLL for (int r = 0; r < R; ++r) {
      const F left = set1_pair(a + r * a_stride + 2 * k);
      TANDEM_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
  TANDEM_UNROLL for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL for (int v = 0; v < V; ++v) store(c + r * c_stride + v * kLanes, sum[r][v]);
  }
}

// A product of `rows` <= R rows with a source's columns: source(k, column) returns kLanes of them.
struct Product {
  const float* a;
  int64_t a_stride;
  int64_t pairs;
  int64_t cols;  // A multiple of kLanes; c is dense.
  float* c;
  const float* factor;

  Product from_row(int64_t row) const {
    return {a + row * a_stride, a_stride, pairs, cols, c + row * cols, factor == nullptr ? nullptr : factor + row};
  }
};
template <int R, typename Source>
inline void multiply_rows(int64_t rows, const Product& p, Source&& source) {
  if constexpr (R > 0) {
    if (rows < R) {
      multiply_rows<R - 1>(rows, p, source);
      return;
    }
    int64_t col = 0;
    for (; col + kMatmulVectors * kLanes <= p.cols; col += kMatmulVectors * kLanes) {
      const auto part = [&](int64_t k, int64_t at) { return source(k, col + at); };
      matmul_tile<R, kMatmulVectors>(p.a, p.a_stride, p.pairs, part, p.c + col, p.cols, p.factor);
    }
    for (; col < p.cols; col += kLanes) {
      const auto part = [&](int64_t k, int64_t at) { return source(k, col + at); };
      matmul_tile<R, 1>(p.a, p.a_stride, p.pairs, part, p.c + col, p.cols, p.factor);
    }
  }
}
template <typename Source>
inline void multiply(int64_t rows, const Product& p, Source&& source) {
  int64_t row = 0;
  for (; row + kMatmulRows <= rows; row += kMatmulRows) {
    multiply_rows<kMatmulRows>(kMatmulRows, p.from_row(row), source);
  }
  multiply_rows<kMatmulRows - 1>(rows - row, p.from_row(row), source);
}

}  // namespace
}  // namespace tandem::cpu
