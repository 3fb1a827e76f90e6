// The description of a graph's input or output: name, type, shape, encoding, and size in bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/qnn/api/abi.h"

namespace tandem::qnn {

using abi::DataType;

// HTP takes 1 to 5 dimensions, and 0 for scalars.
inline constexpr uint32_t kMaxRank = 8;

struct TensorInfo {
  std::string name;
  uint32_t id = 0;  // The library's.
  DataType dtype = DataType::kFloat32;
  std::vector<uint32_t> shape;
  std::optional<abi::ScaleOffset> encoding;  // Of fixed-point types: value = scale * (q + offset).
  uint64_t bytes = 0;
};

// Bytes of an element; 0 for a type that we do not know.
size_t element_bytes(DataType dtype);
bool is_fixed_point(DataType dtype);
std::string_view data_type_name(DataType dtype);  // "u16 fixed point"

// Bytes of a dense tensor, or nothing if they do not fit 32 bits (the library's limit) or the type is unknown.
std::optional<uint32_t> tensor_bytes(DataType dtype, std::span<const uint32_t> shape);

}  // namespace tandem::qnn
