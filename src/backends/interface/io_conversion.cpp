#include "backends/interface/io_conversion.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/half.h"

namespace tandem::ir {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Quantized>
void quantize(const Encoding& e, const float* from, int64_t count, Quantized* to) {
  const float inverse = 1.0f / e.scale, zero = static_cast<float>(e.zero_point);
  const float low = static_cast<float>(std::numeric_limits<Quantized>::min());
  const float high = static_cast<float>(std::numeric_limits<Quantized>::max());
  for (int64_t i = 0; i < count; ++i) {
    const float rounded = std::nearbyint(from[i] * inverse) + zero;
    to[i] = static_cast<Quantized>(std::isnan(rounded) ? zero : std::clamp(rounded, low, high));
  }
}

template <typename Quantized>
void dequantize(const Encoding& e, const Quantized* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = e.scale * static_cast<float>(static_cast<int32_t>(from[i]) - e.zero_point);
}

template <typename Quantized>
void expand_mask(const Encoding& e, const Quantized* from, int64_t count, float* to) {
  constexpr Quantized kLowest = std::numeric_limits<Quantized>::min();
  for (int64_t i = 0; i < count; ++i) {
    const float value = e.scale * static_cast<float>(static_cast<int32_t>(from[i]) - e.zero_point);
    to[i] = from[i] == kLowest ? -kInfinity : value;
  }
}

template <typename Element>
void fill_rows(Element* mask, const MaskShape& shape, const MaskValues& values) {
  const auto visible = static_cast<Element>(values.visible), masked = static_cast<Element>(values.masked);
  const bool rows_behind = shape.columns > shape.context;
  for (int64_t i = 0; i < shape.rows; ++i) {
    Element* row = mask + i * shape.columns;
    std::fill_n(row, shape.columns, masked);
    if (i >= shape.count) continue;
    // Positions [begin, end) are visible; those from `first` on may come after the slots.
    const int64_t end = shape.first + i + 1, begin = shape.window > 0 ? std::max<int64_t>(end - shape.window, 0) : 0;
    const int64_t split = rows_behind ? std::clamp(shape.first, begin, end) : end;
    std::fill(row + begin, row + split, visible);
    if (rows_behind) std::fill(row + shape.context + (split - shape.first), row + shape.context + i + 1, visible);
  }
}

}  // namespace

void encode_row(DType dtype, const Encoding& encoding, const float* from, int64_t count, void* to) {
  switch (dtype) {
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = f16_from_f32(from[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = bf16_from_f32(from[i]);
      return;
    case DType::kU16: quantize(encoding, from, count, static_cast<uint16_t*>(to)); return;
    case DType::kI16: quantize(encoding, from, count, static_cast<int16_t*>(to)); return;
    case DType::kU8: quantize(encoding, from, count, static_cast<uint8_t*>(to)); return;
    case DType::kI8: quantize(encoding, from, count, static_cast<int8_t*>(to)); return;
    case DType::kF32:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4: std::copy_n(from, count, static_cast<float*>(to)); return;
  }
}

void decode_row(DType dtype, const Encoding& encoding, const void* from, int64_t count, float* to) {
  switch (dtype) {
    case DType::kF16:
      for (int64_t i = 0; i < count; ++i) to[i] = f32_from_f16(static_cast<const uint16_t*>(from)[i]);
      return;
    case DType::kBF16:
      for (int64_t i = 0; i < count; ++i) to[i] = f32_from_bf16(static_cast<const uint16_t*>(from)[i]);
      return;
    case DType::kU16: dequantize(encoding, static_cast<const uint16_t*>(from), count, to); return;
    case DType::kI16: dequantize(encoding, static_cast<const int16_t*>(from), count, to); return;
    case DType::kU8: dequantize(encoding, static_cast<const uint8_t*>(from), count, to); return;
    case DType::kI8: dequantize(encoding, static_cast<const int8_t*>(from), count, to); return;
    case DType::kF32:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4: std::copy_n(static_cast<const float*>(from), count, to); return;
  }
}

void round_row(DType dtype, const Encoding& encoding, float* values, int64_t count) {
  constexpr int64_t kChunk = 1024;
  uint32_t encoded[kChunk];  // As wide as the widest dtype.
  for (int64_t at = 0; at < count; at += kChunk) {
    const int64_t part = std::min(kChunk, count - at);
    encode_row(dtype, encoding, values + at, part, encoded);
    decode_row(dtype, encoding, encoded, part, values + at);
  }
}

MaskValues mask_values(DType dtype, const Encoding& encoding) {
  switch (dtype) {
    case DType::kF16: return {f16_from_f32(0.0f), f16_from_f32(-kInfinity)};
    case DType::kU16:
    case DType::kU8: return {static_cast<uint32_t>(encoding.zero_point), 0};
    case DType::kF32:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4: break;
  }
  return {std::bit_cast<uint32_t>(0.0f), std::bit_cast<uint32_t>(-kInfinity)};
}

MaskValues finite_mask_values(DType dtype) {
  // Far below any score, yet f16 can still hold its sum with one.
  constexpr float kFarBelow = -30000.0f;
  if (dtype == DType::kF16) return {f16_from_f32(0.0f), f16_from_f32(kFarBelow)};
  return {std::bit_cast<uint32_t>(0.0f), std::bit_cast<uint32_t>(kFarBelow)};
}

void fill_mask(DType dtype, const MaskShape& shape, const MaskValues& values, void* mask) {
  switch (dtype_bits(dtype)) {
    case 8: fill_rows(static_cast<uint8_t*>(mask), shape, values); return;
    case 16: fill_rows(static_cast<uint16_t*>(mask), shape, values); return;
    default: fill_rows(static_cast<uint32_t*>(mask), shape, values); return;
  }
}

Status mask_to_float(const Tensor& mask, const void* data, float* to) {
  const int64_t count = element_count_of(mask);
  switch (mask.dtype) {
    case DType::kF32: std::copy_n(static_cast<const float*>(data), count, to); return ok_status();
    case DType::kF16: decode_row(mask.dtype, mask.encoding, data, count, to); return ok_status();
    case DType::kU16: expand_mask(mask.encoding, static_cast<const uint16_t*>(data), count, to); return ok_status();
    case DType::kU8: expand_mask(mask.encoding, static_cast<const uint8_t*>(data), count, to); return ok_status();
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4: break;
  }
  return unsupported("a mask of dtype {}", dtype_name(mask.dtype));
}

}  // namespace tandem::ir
