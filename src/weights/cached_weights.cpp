#include "weights/cached_weights.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

// Rows that the interpreter reads at a time.
constexpr int64_t kBlockRows = 32;

}  // namespace

CachedWeights::CachedWeights(const WeightProvider& source, std::span<const WeightShape> shapes, uint64_t limit)
    : source_(source), limit_(limit), left_(limit) {
  for (const WeightShape& shape : shapes) {
    const auto blocks = static_cast<size_t>((shape.rows + kBlockRows - 1) / kBlockRows);
    entries_[shape.name] = {shape.rows, shape.cols, std::make_unique<Block[]>(blocks)};
  }
}

void CachedWeights::fill(std::string_view name, const Entry& entry, int64_t index) const {
  Block& block = entry.blocks[static_cast<size_t>(index)];
  const int64_t begin = index * kBlockRows, count = std::min(kBlockRows, entry.rows - begin);
  const auto numbers = static_cast<size_t>(count * entry.cols);
  uint64_t left = left_.load();
  do {
    if (left < numbers * sizeof(float)) return;
  } while (!left_.compare_exchange_weak(left, left - numbers * sizeof(float)));
  std::vector<float> values(numbers);
  block.status = source_.read_rows(name, begin, count, values.data());
  block.values = std::move(values);
}

Status CachedWeights::read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return source_.read_rows(name, row_begin, rows, out);
  const Entry& entry = it->second;
  if (row_begin < 0 || rows < 0 || row_begin > entry.rows || rows > entry.rows - row_begin) {
    return internal_error("rows {} to {} of \"{}\", which has {}", row_begin, row_begin + rows, name, entry.rows);
  }
  for (int64_t row = row_begin; row < row_begin + rows;) {
    const int64_t index = row / kBlockRows, block_begin = index * kBlockRows;
    const int64_t count = std::min(block_begin + kBlockRows, row_begin + rows) - row;
    Block& block = entry.blocks[static_cast<size_t>(index)];
    std::call_once(block.once, [&] { fill(name, entry, index); });
    float* to = out + (row - row_begin) * entry.cols;
    if (block.values.empty()) {
      TANDEM_TRY(source_.read_rows(name, row, count, to));
    } else {
      TANDEM_TRY(block.status);
      std::copy_n(block.values.data() + (row - block_begin) * entry.cols, count * entry.cols, to);
    }
    row += count;
  }
  return ok_status();
}

}  // namespace tandem
