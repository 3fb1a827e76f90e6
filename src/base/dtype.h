// Element types of tensors in checkpoints, graphs, artifacts and method inputs and outputs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem {

// The numeric values are stored in artifacts: never renumber, only append.
enum class DType : uint8_t {
  kF32 = 0,
  kF16 = 1,
  kBF16 = 2,
  kI8 = 3,
  kU8 = 4,
  kI16 = 5,
  kU16 = 6,
  kI32 = 7,
  kI64 = 8,
  kI4 = 9,  // Two per byte; only for weights, in a layout that defines the order.
};
inline constexpr int kDTypeCount = 10;

// Bits per element (4 for kI4).
int dtype_bits(DType dtype);
// Bytes of `count` elements, rounded up to whole bytes.
size_t dtype_bytes(DType dtype, size_t count);
// "f32", "f16", "bf16", "i8", "u8", "i16", "u16", "i32", "i64", "i4".
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);
bool dtype_is_float(DType dtype);
// Smallest and largest integer of an integer dtype.
int64_t dtype_min(DType dtype);
int64_t dtype_max(DType dtype);

}  // namespace tandem
