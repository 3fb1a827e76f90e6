// A weight as stored in a file other than a hub's: perhaps in quantized blocks (GGUF), in several parts for several
// devices (Meta), with the rows of its heads in another order, or with a constant added. It is read as the hub's
// checkpoint of the same model has it, row by row, without copying the whole.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "tandem/status.h"

namespace tandem {

// How numbers are stored in a file. The quantized ones are ggml's: blocks of 32 (Q8_0, Q4_0) or 256 (Q6_K) elements
// with their own scales; a row always begins with a block. Q6_K is here because files that call themselves Q4_0 store
// their embedding or LM head in it.
enum class WeightEncoding : uint8_t { kF32, kF16, kBF16, kQ8_0, kQ4_0, kQ6_K };

struct EncodingLayout {
  std::string_view name;
  uint64_t elements;  // Per block.
  uint64_t bytes;
};
const EncodingLayout& encoding_layout(WeightEncoding encoding);
// Bytes of this many elements in a row; nothing if they are not a whole number of blocks, or too many.
std::optional<uint64_t> encoded_bytes(WeightEncoding encoding, uint64_t elements);
// f32, f16 and bf16 only.
WeightEncoding encoding_of(DType dtype);
std::optional<DType> dtype_of(WeightEncoding encoding);

// Elements [first, first + count) of a run of blocks; any first and count.
void decode_elements(WeightEncoding encoding, const uint8_t* blocks, uint64_t first, uint64_t count, float* out);

struct StoredTensor {
  WeightEncoding encoding = WeightEncoding::kF32;
  std::vector<int64_t> shape = {};                   // Of the whole tensor, as a hub has it.
  std::vector<std::span<const uint8_t>> parts = {};  // Of equal size. At least one.
  int parts_axis = 0;  // 0: parts are stacked vertically. 1: side by side (two dimensions).
  // If above 0: this many heads, in each of which the rows of a rotated pair are adjacent (0, D/2, 1, D/2 + 1, ...).
  // They are returned in the hub's order: first all first rows of the pairs, then all second ones.
  int64_t interleaved_heads = 0;
  float offset = 0.0f;  // Added to each element.

  int64_t rows() const { return shape.empty() ? 1 : shape[0]; }
  uint64_t row_size() const;
  // Plain floats in one piece: its bytes can be used as they are.
  bool is_plain() const;
  // Checks the sizes of the parts against the shape. Called once, on creation.
  Status check() const;
};

// Like read_rows_f32() (convert.h). `out` must have exactly the rows' size.
Status read_stored_rows(const StoredTensor& tensor, int64_t row_begin, int64_t row_count, std::span<float> out);

// Calls visit(bytes) for the file bytes that these rows come from; with more, if rows are in another order.
template <typename Visit>
void visit_stored_bytes(const StoredTensor& tensor, int64_t row_begin, int64_t row_count, Visit&& visit) {
  int64_t begin = row_begin, end = row_begin + row_count;
  if (tensor.interleaved_heads > 0) {
    const int64_t head = tensor.rows() / tensor.interleaved_heads;
    begin = begin / head * head;
    end = (end + head - 1) / head * head;
  }
  const auto parts = static_cast<int64_t>(tensor.parts.size());
  const int64_t part_rows = tensor.parts_axis == 0 ? tensor.rows() / parts : tensor.rows();
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t first_row = tensor.parts_axis == 0 ? i * part_rows : 0;
    const int64_t from = begin > first_row ? begin - first_row : 0;
    const int64_t to = end - first_row < part_rows ? end - first_row : part_rows;
    if (from >= to) continue;
    const auto& part = tensor.parts[static_cast<size_t>(i)];
    const auto row_bytes = part.size() / static_cast<uint64_t>(part_rows);
    visit(part.subspan(static_cast<uint64_t>(from) * row_bytes, static_cast<uint64_t>(to - from) * row_bytes));
  }
}

}  // namespace tandem
