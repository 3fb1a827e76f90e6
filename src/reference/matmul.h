// The interpreter's matrix product: blocked and vectorized, so that calibrating a model of a billion weights takes
// minutes and not hours. Sums run over 16 lanes, which is also slightly more accurate than a sequential sum.
#pragma once

#include <cstdint>

namespace tandem {

// y[n, m] = sum over k of x[n, k] * w[m, k], for n < tokens and m < rows; y is [tokens, y_stride].
void matmul_block(const float* x, int64_t tokens, const float* w, int64_t rows, int64_t cols, float* y,
                  int64_t y_stride);

float dot(const float* a, const float* b, int64_t count);

}  // namespace tandem
