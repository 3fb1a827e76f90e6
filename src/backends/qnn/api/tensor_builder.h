// Descriptions of tensors to be added to a graph, and short ways to make the ones that a decoder needs: inputs,
// outputs, values between ops, constants, quantized weights.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "backends/qnn/api/tensor_info.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem::qnn {

using abi::ScaleOffset;
using abi::TensorKind;
using Shape = std::vector<uint32_t>;

// Bytes that are either ours or someone else's who keeps them until the tensor is in the graph (the library copies).
class TensorData {
 public:
  TensorData() = default;
  static TensorData borrow(std::span<const uint8_t> bytes) {
    TensorData data;
    data.borrowed_ = bytes;
    return data;
  }
  static TensorData own(std::vector<uint8_t> bytes) {
    TensorData data;
    data.owned_ = std::move(bytes);
    return data;
  }
  std::span<const uint8_t> bytes() const { return owned_.empty() ? borrowed_ : std::span<const uint8_t>(owned_); }

 private:
  std::span<const uint8_t> borrowed_;
  std::vector<uint8_t> owned_;
};

// One scale and offset for each index of an axis.
struct PerAxis {
  int axis = 0;
  std::vector<ScaleOffset> entries;
};

// int4 values, a byte each; value = q * channels[c].scale * multipliers[c * blocks + b], multipliers 1 to 16.
struct Lpbq {
  int axis = 0;  // Of the output channels.
  std::vector<ScaleOffset> channels;
  uint32_t blocks = 0;  // In each channel.
  TensorData multipliers;
};

using Quantization = std::variant<std::monostate, ScaleOffset, PerAxis, Lpbq>;

struct TensorSpec {
  std::string name;  // Unique in the graph.
  TensorKind kind = TensorKind::kNative;
  DataType dtype = DataType::kFloat32;
  Shape shape;
  Quantization quantization;  // Of fixed-point types, and of those only.
  TensorData data;            // Of constants, and of those only.
};

// Whether the parts fit each other: sizes, ranges, encodings. The library checks next to nothing of this.
Status check_tensor(const TensorSpec& spec);

// Inputs, outputs and values between ops. Fixed-point types need an encoding, others have none.
TensorSpec make_tensor(TensorKind kind, std::string name, DataType dtype, Shape shape,
                       std::optional<ScaleOffset> encoding = std::nullopt);
inline TensorSpec make_input(std::string name, DataType dtype, Shape shape, std::optional<ScaleOffset> encoding = {}) {
  return make_tensor(TensorKind::kAppWrite, std::move(name), dtype, std::move(shape), encoding);
}
inline TensorSpec make_output(std::string name, DataType dtype, Shape shape, std::optional<ScaleOffset> encoding = {}) {
  return make_tensor(TensorKind::kAppRead, std::move(name), dtype, std::move(shape), encoding);
}
inline TensorSpec make_native(std::string name, DataType dtype, Shape shape, std::optional<ScaleOffset> encoding = {}) {
  return make_tensor(TensorKind::kNative, std::move(name), dtype, std::move(shape), encoding);
}

// Constants. The data is copied.
TensorSpec make_static_f16(std::string name, Shape shape, std::span<const float> values);
TensorSpec make_static_i32(std::string name, Shape shape, std::span<const int32_t> values);
TensorSpec make_static_u32(std::string name, Shape shape, std::span<const uint32_t> values);
// Rounded to nearest even and saturated; s8, u8, s16, u16 or s32 fixed point.
TensorSpec make_static_fixed(std::string name, DataType dtype, Shape shape, std::span<const float> values,
                             ScaleOffset encoding);

// The encoding whose range covers [lowest, highest] and zero, exactly. For signed types it is symmetric.
ScaleOffset encoding_for_range(DataType dtype, float lowest, float highest);
// The quantized value: rounded to nearest even and saturated; NaN becomes that of zero.
int64_t quantize(DataType dtype, const ScaleOffset& encoding, float value);

// Weights as constants: lpbq4 as LPBQ, int8 per channel, fp16 and fp32 as f16.
// For a 1x1 Conv2d, [1, 1, cols, rows]: values are transposed into the spec's own memory.
Result<TensorSpec> make_conv2d_weights(std::string name, const WeightMatrix& weights);

}  // namespace tandem::qnn
