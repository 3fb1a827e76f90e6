#include "backends/qnn/api/tensor_info.h"

#include <limits>

#include "base/checked.h"

namespace tandem::qnn {

size_t element_bytes(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kFixedS8:
    case DataType::kFixedU8:
    case DataType::kBool8: return 1;
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kFloat16:
    case DataType::kFixedS16:
    case DataType::kFixedU16: return 2;
    case DataType::kInt32:
    case DataType::kUint32:
    case DataType::kFloat32:
    case DataType::kFixedS32:
    case DataType::kFixedU32: return 4;
    case DataType::kInt64:
    case DataType::kUint64: return 8;
  }
  return 0;
}

bool is_fixed_point(DataType dtype) {
  const uint32_t kind = static_cast<uint32_t>(dtype) >> 8;
  return kind == 3 || kind == 4;
}

std::string_view data_type_name(DataType dtype) {
  switch (dtype) {
    case DataType::kInt8: return "i8";
    case DataType::kInt16: return "i16";
    case DataType::kInt32: return "i32";
    case DataType::kInt64: return "i64";
    case DataType::kUint8: return "u8";
    case DataType::kUint16: return "u16";
    case DataType::kUint32: return "u32";
    case DataType::kUint64: return "u64";
    case DataType::kFloat16: return "f16";
    case DataType::kFloat32: return "f32";
    case DataType::kFixedS8: return "s8 fixed point";
    case DataType::kFixedS16: return "s16 fixed point";
    case DataType::kFixedS32: return "s32 fixed point";
    case DataType::kFixedU8: return "u8 fixed point";
    case DataType::kFixedU16: return "u16 fixed point";
    case DataType::kFixedU32: return "u32 fixed point";
    case DataType::kBool8: return "bool";
  }
  return "unknown";
}

std::optional<uint32_t> tensor_bytes(DataType dtype, std::span<const uint32_t> shape) {
  const size_t each = element_bytes(dtype);
  if (each == 0) return std::nullopt;
  uint64_t bytes = each;
  for (const uint32_t dim : shape) {
    const auto next = checked_mul(bytes, dim);
    if (!next) return std::nullopt;
    bytes = *next;
  }
  if (bytes > std::numeric_limits<uint32_t>::max()) return std::nullopt;
  return static_cast<uint32_t>(bytes);
}

}  // namespace tandem::qnn
