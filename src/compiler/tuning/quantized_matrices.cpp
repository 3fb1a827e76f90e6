#include "compiler/tuning/quantized_matrices.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

void dequantize(const WeightMatrix& matrix, ThreadPool& pool, float* out) {
  constexpr int64_t kRows = 16;
  pool.run((matrix.rows + kRows - 1) / kRows, [&](int64_t task, int) {
    for (int64_t row = task * kRows; row < std::min(matrix.rows, (task + 1) * kRows); ++row) {
      matrix.dequantize_row(row, out + row * matrix.cols);
    }
  });
}

}  // namespace

Status QuantizedMatrices::set(const std::string& name, const WeightMatrix& matrix) {
  std::vector<float>& values = chosen_[name];
  values.resize(static_cast<size_t>(matrix.rows * matrix.cols));
  dequantize(matrix, pool_, values.data());
  return ok_status();
}

Result<const float*> QuantizedMatrices::matrix(const std::string& name, int64_t rows, int64_t cols) {
  if (const auto it = chosen_.find(name); it != chosen_.end()) return const_cast<const float*>(it->second.data());
  const auto [it, is_new] = rounded_.try_emplace(name);
  if (!is_new) return const_cast<const float*>(it->second.data());
  TANDEM_ASSIGN(const float* values, floats_.matrix(name, rows, cols));
  auto matrix = quantize_matrix(values, rows, cols, recipe_.spec_for(name), pool_);
  if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", name);
  floats_.forget();
  it->second.resize(static_cast<size_t>(rows * cols));
  dequantize(*matrix, pool_, it->second.data());
  return const_cast<const float*>(it->second.data());
}

Status QuantizedMatrices::embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols,
                                         float* out) {
  TANDEM_TRY(floats_.embedding_rows(name, tokens, cols, out));
  const auto rows = static_cast<int64_t>(tokens.size());
  auto matrix = quantize_matrix(out, rows, cols, recipe_.spec_for(name), pool_);
  if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", name);
  dequantize(*matrix, pool_, out);
  return ok_status();
}

}  // namespace tandem
