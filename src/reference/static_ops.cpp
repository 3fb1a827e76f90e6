#include "reference/static_ops.h"

#include <algorithm>
#include <limits>

#include "linalg/multiply.h"
#include "reference/softmax.h"

namespace tandem {

void split_heads(const float* from, int64_t rows, int64_t heads, int64_t size, float* to) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t h = 0; h < heads; ++h) std::copy_n(from + (n * heads + h) * size, size, to + (h * rows + n) * size);
  }
}

void join_heads(const float* from, int64_t rows, int64_t heads, int64_t size, float* to) {
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t h = 0; h < heads; ++h) std::copy_n(from + (h * rows + n) * size, size, to + (n * heads + h) * size);
  }
}

void multiply_heads(const HeadsView& a, const HeadsView& b, bool transpose_b, float* y, ThreadPool& pool) {
  const int64_t heads = a.shape[0], rows = a.shape[1], inner = a.shape[2];
  const int64_t group = heads / b.shape[0], columns = b.shape[transpose_b ? 1 : 2];
  // The heads of a group are stacked vertically: one product computes them all.
  for (int64_t shared = 0; shared < b.shape[0]; ++shared) {
    const int64_t first = shared * group;
    const ConstMatrix left(a.data + first * rows * inner, group * rows, inner);
    const float* const right = b.data + shared * inner * columns;
    const Matrix result(y + first * rows * columns, group * rows, columns);
    if (transpose_b) {
      multiply_nt(left, {right, columns, inner}, result, pool);
    } else {
      multiply_nn(left, {right, inner, columns}, result, pool);
    }
  }
}

void concat_columns(std::span<const ColumnsView> parts, int64_t rows, float* y) {
  int64_t whole = 0, at = 0;
  for (const ColumnsView& part : parts) whole += part.width;
  for (const ColumnsView& part : parts) {
    for (int64_t r = 0; r < rows; ++r) std::copy_n(part.data + r * part.width, part.width, y + r * whole + at);
    at += part.width;
  }
}

void slice_axis(const HeadsView& whole, const std::vector<int64_t>& part, int32_t axis, int64_t begin, float* y) {
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < part.size(); ++i) {
    if (static_cast<int32_t>(i) < axis) outer *= part[i];
    if (static_cast<int32_t>(i) > axis) inner *= part[i];
  }
  const auto at = static_cast<size_t>(axis);
  const int64_t step = whole.shape[at] * inner, count = part[at] * inner;
  for (int64_t i = 0; i < outer; ++i) std::copy_n(whole.data + i * step + begin * inner, count, y + i * count);
}

void softmax_rows(const float* x, int64_t rows, int64_t width, float factor, float* y) {
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const float highest = *std::max_element(x, x + width);
    if (highest == -std::numeric_limits<float>::infinity()) {
      std::fill_n(y, width, 0.0f);
      continue;
    }
    for (int64_t i = 0; i < width; ++i) y[i] = factor * (x[i] - highest);
    const double sum = exp_row(y, width, 0.0f);
    const auto scale = static_cast<float>(1.0 / sum);
    for (int64_t i = 0; i < width; ++i) y[i] *= scale;
  }
}

}  // namespace tandem
