// Products of one query with keys and values, vectorized.
#pragma once

#include <cstdint>

namespace tandem {

// y[dim] = sum over j of weights[j] * rows[j, dim]. Rows whose weight is zero are not read.
void sum_weighted_rows(const float* weights, const float* rows, int64_t count, int64_t dim, float* y);

// Sums run over 16 lanes, which is also slightly more accurate than a sequential sum.
float dot(const float* a, const float* b, int64_t count);

}  // namespace tandem
