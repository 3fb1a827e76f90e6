#include "reference/matmul.h"

#include <algorithm>
#include <cstring>

// Compiled for several instruction sets; the loader picks one (glibc's ifunc). Sanitizers run before ifuncs are
// resolved, so their builds use the plain version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__clang__)
#define TANDEM_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TANDEM_CLONES
#endif

namespace tandem {
namespace {

using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;

template <int kTokens, int kRows>
inline __attribute__((always_inline)) void tile(const float* x, const float* w, int64_t cols, float* y,
                                                int64_t y_stride) {
  Lanes sums[kTokens][kRows] = {};
  int64_t k = 0;
  for (; k + kLanes <= cols; k += kLanes) {
    Lanes wv[kRows];
    for (int m = 0; m < kRows; ++m) std::memcpy(&wv[m], w + m * cols + k, sizeof(Lanes));
    for (int n = 0; n < kTokens; ++n) {
      Lanes xv;
      std::memcpy(&xv, x + n * cols + k, sizeof(Lanes));
      for (int m = 0; m < kRows; ++m) sums[n][m] += xv * wv[m];
    }
  }
  for (int n = 0; n < kTokens; ++n) {
    for (int m = 0; m < kRows; ++m) {
      float sum = 0.0f;
      for (int64_t tail = k; tail < cols; ++tail) sum += x[n * cols + tail] * w[m * cols + tail];
      for (int lane = 0; lane < kLanes; ++lane) sum += sums[n][m][lane];
      y[n * y_stride + m] = sum;
    }
  }
}

template <int kTokens>
inline __attribute__((always_inline)) void token_band(const float* x, const float* w, int64_t rows, int64_t cols,
                                                      float* y, int64_t y_stride) {
  int64_t m = 0;
  for (; m + 4 <= rows; m += 4) tile<kTokens, 4>(x, w + m * cols, cols, y + m, y_stride);
  for (; m < rows; ++m) tile<kTokens, 1>(x, w + m * cols, cols, y + m, y_stride);
}

}  // namespace

TANDEM_CLONES void matmul_block(const float* x, int64_t tokens, const float* w, int64_t rows, int64_t cols, float* y,
                                int64_t y_stride) {
  int64_t n = 0;
  for (; n + 4 <= tokens; n += 4) token_band<4>(x + n * cols, w, rows, cols, y + n * y_stride, y_stride);
  for (; n < tokens; ++n) token_band<1>(x + n * cols, w, rows, cols, y + n * y_stride, y_stride);
}

TANDEM_CLONES float dot(const float* a, const float* b, int64_t count) {
  float y;
  tile<1, 1>(a, b, count, &y, 1);
  return y;
}

}  // namespace tandem
