#include "checkpoint/stored_tensor.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "base/half.h"
#include "checkpoint/convert.h"

namespace tandem {
namespace {

constexpr std::array<EncodingLayout, 6> kLayouts = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"BF16", 1, 2},
    {"Q8_0", 32, 34},
    {"Q4_0", 32, 18},
    {"Q6_K", 256, 210},
}};
constexpr uint64_t kMaxBlock = 256;

float load_f16(const uint8_t* source) {
  uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return f32_from_f16(bits);
}

// A scale, then 32 signed bytes.
void decode_q8_0(const uint8_t* block, float* out) {
  const float scale = load_f16(block);
  for (size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// A scale, then 16 bytes: the low nibbles are elements 0 to 15, the high nibbles 16 to 31, both offset by 8.
void decode_q4_0(const uint8_t* block, float* out) {
  const float scale = load_f16(block);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((block[2 + i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

// 256 six-bit numbers offset by 32: 128 bytes of low four bits, 64 of high two, 16 signed scales (one per sixteen
// elements), and a scale for these. Each half of the block holds four runs of 32 elements: the low bits of runs 0 and 2
// share bytes, as do those of 1 and 3; the high bits of all four share a byte.
void decode_q6_k(const uint8_t* block, float* out) {
  const uint8_t* low = block;
  const uint8_t* high = block + 128;
  const uint8_t* scales = block + 192;
  const float super = load_f16(block + 208);
  for (size_t half = 0; half < 2; ++half) {
    for (size_t run = 0; run < 4; ++run) {
      for (size_t i = 0; i < 32; ++i) {
        const unsigned low_byte = low[half * 64 + (run % 2) * 32 + i];
        const unsigned low_bits = run < 2 ? low_byte & 15u : low_byte >> 4;
        const unsigned high_bits = (high[half * 32 + i] >> (2 * run)) & 3u;
        const float scale = super * static_cast<float>(static_cast<int8_t>(scales[half * 8 + run * 2 + i / 16]));
        out[half * 128 + run * 32 + i] = scale * static_cast<float>(static_cast<int>(low_bits | high_bits << 4) - 32);
      }
    }
  }
}

void decode_block(WeightEncoding encoding, const uint8_t* block, float* out) {
  switch (encoding) {
    case WeightEncoding::kQ8_0: return decode_q8_0(block, out);
    case WeightEncoding::kQ4_0: return decode_q4_0(block, out);
    case WeightEncoding::kQ6_K: return decode_q6_k(block, out);
    default: return;
  }
}

// The file's row for row `row` of the hub's tensor.
int64_t stored_row(const StoredTensor& tensor, int64_t row) {
  if (tensor.interleaved_heads == 0) return row;
  const int64_t head_rows = tensor.rows() / tensor.interleaved_heads;
  const int64_t head = row / head_rows, in_head = row % head_rows;
  const int64_t second = in_head / (head_rows / 2), pair = in_head % (head_rows / 2);
  return head * head_rows + 2 * pair + second;
}

// `count` consecutive rows of the file.
void read_run(const StoredTensor& tensor, int64_t row, int64_t count, float* out) {
  const uint64_t row_size = tensor.row_size();
  const auto parts = static_cast<int64_t>(tensor.parts.size());
  if (tensor.parts_axis == 0) {
    const int64_t part_rows = tensor.rows() / parts;
    while (count > 0) {
      const int64_t in_part = row % part_rows, now = std::min(count, part_rows - in_part);
      decode_elements(tensor.encoding, tensor.parts[static_cast<size_t>(row / part_rows)].data(),
                      static_cast<uint64_t>(in_part) * row_size, static_cast<uint64_t>(now) * row_size, out);
      out += static_cast<uint64_t>(now) * row_size;
      row += now;
      count -= now;
    }
    return;
  }
  const uint64_t part_size = row_size / static_cast<uint64_t>(parts);
  for (int64_t end = row + count; row < end; ++row) {
    for (const auto& part : tensor.parts) {
      decode_elements(tensor.encoding, part.data(), static_cast<uint64_t>(row) * part_size, part_size, out);
      out += part_size;
    }
  }
}

}  // namespace

const EncodingLayout& encoding_layout(WeightEncoding encoding) { return kLayouts[static_cast<size_t>(encoding)]; }

std::optional<uint64_t> encoded_bytes(WeightEncoding encoding, uint64_t elements) {
  const EncodingLayout& layout = encoding_layout(encoding);
  if (elements % layout.elements != 0) return std::nullopt;
  return checked_mul(elements / layout.elements, layout.bytes);
}

WeightEncoding encoding_of(DType dtype) {
  if (dtype == DType::kF16) return WeightEncoding::kF16;
  return dtype == DType::kBF16 ? WeightEncoding::kBF16 : WeightEncoding::kF32;
}

std::optional<DType> dtype_of(WeightEncoding encoding) {
  switch (encoding) {
    case WeightEncoding::kF32: return DType::kF32;
    case WeightEncoding::kF16: return DType::kF16;
    case WeightEncoding::kBF16: return DType::kBF16;
    default: return std::nullopt;
  }
}

void decode_elements(WeightEncoding encoding, const uint8_t* blocks, uint64_t first, uint64_t count, float* out) {
  if (count == 0) return;
  switch (encoding) {
    case WeightEncoding::kF32: std::memcpy(out, blocks + 4 * first, count * sizeof(float)); return;
    case WeightEncoding::kF16: convert_f16_to_f32(blocks + 2 * first, out, count); return;
    case WeightEncoding::kBF16: convert_bf16_to_f32(blocks + 2 * first, out, count); return;
    default: break;
  }
  const EncodingLayout& layout = encoding_layout(encoding);
  std::array<float, kMaxBlock> values;
  while (count > 0) {
    const uint8_t* block = blocks + first / layout.elements * layout.bytes;
    const uint64_t skipped = first % layout.elements, now = std::min(count, layout.elements - skipped);
    if (now == layout.elements) {
      decode_block(encoding, block, out);
    } else {
      decode_block(encoding, block, values.data());
      std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(skipped), now, out);
    }
    out += now;
    first += now;
    count -= now;
  }
}

uint64_t StoredTensor::row_size() const {
  return shape.size() < 2 ? 1 : element_count(std::span(shape).subspan(1)).value_or(0);
}

bool StoredTensor::is_plain() const {
  return dtype_of(encoding) && parts.size() == 1 && interleaved_heads == 0 && offset == 0.0f;
}

Status StoredTensor::check() const {
  const auto elements = element_count(shape);
  const auto bad = [&] {
    return corrupt("a tensor of shape [{}] in {} parts does not have the right size", str_join(shape, ", "),
                   parts.size());
  };
  if (!elements || *elements == 0 || parts.empty()) return bad();
  if (parts.size() > 1) {
    if (parts_axis == 1 && shape.size() != 2) return bad();
    const int64_t along = shape.empty() ? 1 : shape[static_cast<size_t>(parts_axis)];
    if (along % static_cast<int64_t>(parts.size()) != 0) return bad();
  }
  const uint64_t per_part = *elements / parts.size();
  // Blocks never cross row boundaries.
  const uint64_t run = shape.size() < 2 ? per_part : row_size() / (parts_axis == 1 ? parts.size() : 1);
  const auto run_bytes = encoded_bytes(encoding, run);
  const auto bytes = run_bytes ? checked_mul(*run_bytes, per_part / run) : std::nullopt;
  for (const auto& part : parts) {
    if (!bytes || part.size() != *bytes) return bad();
  }
  if (interleaved_heads < 0 ||
      (interleaved_heads > 0 && (rows() % interleaved_heads != 0 || rows() / interleaved_heads % 2 != 0))) {
    return corrupt("{} rows are not {} heads of an even size", rows(), interleaved_heads);
  }
  return ok_status();
}

Status read_stored_rows(const StoredTensor& tensor, int64_t row_begin, int64_t row_count, std::span<float> out) {
  const int64_t rows = tensor.rows();
  if (row_begin < 0 || row_count < 0 || row_begin > rows || row_count > rows - row_begin) {
    return invalid_argument("{} rows from row {} were asked for, but the tensor has {}", row_count, row_begin, rows);
  }
  const uint64_t row_size = tensor.row_size();
  if (out.size() != static_cast<uint64_t>(row_count) * row_size) {
    return invalid_argument("{} elements do not fit a buffer of {}", static_cast<uint64_t>(row_count) * row_size,
                            out.size());
  }
  if (tensor.interleaved_heads == 0) {
    read_run(tensor, row_begin, row_count, out.data());
  } else {
    for (int64_t i = 0; i < row_count; ++i) {
      read_run(tensor, stored_row(tensor, row_begin + i), 1, out.data() + static_cast<uint64_t>(i) * row_size);
    }
  }
  if (tensor.offset != 0.0f) {
    for (float& value : out) value += tensor.offset;
  }
  return ok_status();
}

}  // namespace tandem
