// The interpreter's attention in static graphs: split heads, a product over slots and rows, softmax.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"

namespace tandem {

// [rows, heads * size] to [heads, rows, size].
void split_heads(const float* from, int64_t rows, int64_t heads, int64_t size, float* to);
// The inverse.
void join_heads(const float* from, int64_t rows, int64_t heads, int64_t size, float* to);

// A tensor [heads, rows, width], or [rows, width].
struct HeadsView {
  const float* data = nullptr;
  const std::vector<int64_t>& shape;
};
// y[h] = a[h] * b[h / group], or with b transposed; group is the number of a's heads for one of b's.
void multiply_heads(const HeadsView& a, const HeadsView& b, bool transpose_b, float* y, ThreadPool& pool);

// Columns of a matrix.
struct ColumnsView {
  const float* data = nullptr;
  int64_t width = 0;
};
// Concatenates the parts in each of `rows` rows.
void concat_columns(std::span<const ColumnsView> parts, int64_t rows, float* y);

// The part of `whole` from `begin` on along `axis`, of shape `part`.
void slice_axis(const HeadsView& whole, const std::vector<int64_t>& part, int32_t axis, int64_t begin, float* y);

// Softmax of factor * x in each row; y may be x. A row of -infinity gives zeros.
void softmax_rows(const float* x, int64_t rows, int64_t width, float factor, float* y);

}  // namespace tandem
