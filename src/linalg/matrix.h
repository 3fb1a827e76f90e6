// Views of dense row-major matrices of floats.
#pragma once

#include <cstdint>

namespace tandem {

struct ConstMatrix {
  const float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;  // From one row to the next, in floats; at least `cols`.

  ConstMatrix(const float* values, int64_t row_count, int64_t col_count)
      : ConstMatrix(values, row_count, col_count, col_count) {}
  ConstMatrix(const float* values, int64_t row_count, int64_t col_count, int64_t row_stride)
      : data(values), rows(row_count), cols(col_count), stride(row_stride) {}
  ConstMatrix block(int64_t row, int64_t col, int64_t row_count, int64_t col_count) const {
    return {data + row * stride + col, row_count, col_count, stride};
  }
};

struct Matrix {
  float* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  Matrix(float* values, int64_t row_count, int64_t col_count) : Matrix(values, row_count, col_count, col_count) {}
  Matrix(float* values, int64_t row_count, int64_t col_count, int64_t row_stride)
      : data(values), rows(row_count), cols(col_count), stride(row_stride) {}
  // NOLINTNEXTLINE(google-explicit-constructor): what may be written may be read.
  operator ConstMatrix() const { return {data, rows, cols, stride}; }
  Matrix block(int64_t row, int64_t col, int64_t row_count, int64_t col_count) const {
    return {data + row * stride + col, row_count, col_count, stride};
  }
  float* row(int64_t index) const { return data + index * stride; }
};

}  // namespace tandem
