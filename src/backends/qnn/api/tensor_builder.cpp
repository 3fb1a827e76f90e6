#include "backends/qnn/api/tensor_builder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/half.h"

namespace tandem::qnn {
namespace {

struct QuantizedRange {
  int64_t lowest;
  int64_t highest;
};

QuantizedRange quantized_range(DataType dtype) {
  switch (dtype) {
    case DataType::kFixedU8: return {0, 255};
    case DataType::kFixedU16: return {0, 65535};
    case DataType::kFixedS8: return {-128, 127};
    case DataType::kFixedS16: return {-32768, 32767};
    case DataType::kFixedU32: return {0, std::numeric_limits<uint32_t>::max()};
    default: return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
  }
}

bool is_usable(const ScaleOffset& encoding) { return std::isfinite(encoding.scale) && encoding.scale > 0.0f; }

Status check_axis(const TensorSpec& spec, int axis, size_t entries) {
  if (axis < 0 || static_cast<size_t>(axis) >= spec.shape.size()) {
    return invalid_argument("tensor {} is quantized along axis {}, and it has {} axes", spec.name, axis,
                            spec.shape.size());
  }
  if (entries != spec.shape[static_cast<size_t>(axis)]) {
    return invalid_argument("tensor {} has {} scales for {} channels", spec.name, entries,
                            spec.shape[static_cast<size_t>(axis)]);
  }
  return {};
}

Status check_scales(const TensorSpec& spec, std::span<const ScaleOffset> entries) {
  if (std::ranges::all_of(entries, is_usable)) return {};
  return invalid_argument("tensor {} has a scale that is not a positive number", spec.name);
}

Status check_lpbq(const TensorSpec& spec, const Lpbq& lpbq) {
  if (spec.dtype != DataType::kFixedS8 || spec.kind != TensorKind::kStatic) {
    return invalid_argument("tensor {}: LPBQ is for constants of s8 codes", spec.name);
  }
  TANDEM_TRY(check_axis(spec, lpbq.axis, lpbq.channels.size()));
  TANDEM_TRY(check_scales(spec, lpbq.channels));
  if (std::ranges::any_of(lpbq.channels, [](const ScaleOffset& channel) { return channel.offset != 0; })) {
    return invalid_argument("tensor {}: LPBQ has no offsets", spec.name);
  }
  const auto elements = spec.data.bytes().size();
  const auto per_channel = lpbq.channels.empty() ? 0 : elements / lpbq.channels.size();
  const auto multipliers = lpbq.multipliers.bytes();
  if (lpbq.blocks == 0 || per_channel % lpbq.blocks != 0 || multipliers.size() / lpbq.blocks != lpbq.channels.size() ||
      multipliers.size() % lpbq.blocks != 0) {
    return invalid_argument("tensor {} has {} LPBQ multipliers in {} blocks a channel, which do not fit its shape",
                            spec.name, multipliers.size(), lpbq.blocks);
  }
  if (std::ranges::any_of(multipliers, [](uint8_t m) { return m < 1 || m > 16; })) {
    return invalid_argument("tensor {} has an LPBQ multiplier outside 1..16", spec.name);
  }
  if (std::ranges::any_of(spec.data.bytes(), [](uint8_t value) { return static_cast<uint8_t>(value + 8) > 15; })) {
    return invalid_argument("tensor {} has an LPBQ code outside -8..7", spec.name);
  }
  return {};
}

template <typename T>
std::vector<uint8_t> bytes_of(std::span<const T> values) {
  std::vector<uint8_t> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TensorSpec make_static(std::string name, DataType dtype, Shape shape, std::vector<uint8_t> bytes) {
  TensorSpec spec = make_tensor(TensorKind::kStatic, std::move(name), dtype, std::move(shape));
  spec.data = TensorData::own(std::move(bytes));
  return spec;
}

std::vector<uint8_t> f16_bytes(std::span<const float> values) {
  std::vector<uint16_t> halves(values.size());
  std::ranges::transform(values, halves.begin(), f16_from_f32);
  return bytes_of(std::span<const uint16_t>(halves));
}

Status check_weights(const std::string& name, const WeightMatrix& weights) {
  const auto rows = static_cast<uint64_t>(weights.rows);
  const auto cols = static_cast<uint64_t>(weights.cols);
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  if (weights.rows <= 0 || weights.cols <= 0 || weights.rows > kMost || weights.cols > kMost ||
      rows * cols > static_cast<uint64_t>(kMost)) {
    return unsupported("weight {} of {} x {} is too big for one QNN tensor", name, weights.rows, weights.cols);
  }
  if (!is_quantized(weights.format)) {
    const size_t have = weights.format == WeightFormat::kF32 ? weights.f32.size() : weights.half.size();
    if (have != rows * cols) return internal_error("weight {} has {} values", name, have);
    return {};
  }
  if (weights.quantized.size() != rows * cols || weights.scales.size() != rows) {
    return internal_error("weight {} has {} codes and {} scales for {} x {}", name, weights.quantized.size(),
                          weights.scales.size(), rows, cols);
  }
  if (weights.format != WeightFormat::kLpbq4) return {};
  if (weights.block <= 0 || weights.cols % weights.block != 0) {
    return unsupported("weight {}: HTP takes whole LPBQ blocks only, and {} inputs are not a multiple of {}", name,
                       weights.cols, weights.block);
  }
  if (weights.multipliers.size() != rows * static_cast<uint64_t>(weights.blocks_per_row())) {
    return internal_error("weight {} has {} multipliers", name, weights.multipliers.size());
  }
  return {};
}

Quantization quantization_of(const WeightMatrix& weights, int channel_axis) {
  std::vector<ScaleOffset> channels(weights.scales.size());
  std::ranges::transform(weights.scales, channels.begin(), [](float scale) { return ScaleOffset{scale, 0}; });
  // A row of zeros may have scale 0, which the library does not take; any scale gives zero there.
  for (ScaleOffset& channel : channels) {
    if (channel.scale == 0.0f) channel.scale = std::numeric_limits<float>::min();
  }
  if (weights.format == WeightFormat::kI8) return PerAxis{channel_axis, std::move(channels)};
  return Lpbq{channel_axis, std::move(channels), static_cast<uint32_t>(weights.blocks_per_row()),
              TensorData::borrow(weights.multipliers)};
}

template <typename T>
std::vector<T> transposed(const T* from, size_t rows, size_t cols) {
  std::vector<T> to(rows * cols);
  // In tiles: rows of a few thousand bytes apart would miss the cache on every element.
  constexpr size_t kTile = 64;
  for (size_t row = 0; row < rows; row += kTile) {
    for (size_t col = 0; col < cols; col += kTile) {
      for (size_t r = row; r < std::min(rows, row + kTile); ++r) {
        for (size_t c = col; c < std::min(cols, col + kTile); ++c) to[c * rows + r] = from[r * cols + c];
      }
    }
  }
  return to;
}

std::vector<float> as_floats(const WeightMatrix& weights) {
  std::vector<float> values(static_cast<size_t>(weights.rows * weights.cols));
  for (int64_t row = 0; row < weights.rows; ++row) weights.dequantize_row(row, values.data() + row * weights.cols);
  return values;
}

}  // namespace

Status check_tensor(const TensorSpec& spec) {
  if (spec.name.empty()) return invalid_argument("a tensor needs a name");
  if (spec.shape.size() > kMaxRank) {
    return unsupported("tensor {} has {} dimensions, and QNN takes {}", spec.name, spec.shape.size(), kMaxRank);
  }
  if (std::ranges::find(spec.shape, 0u) != spec.shape.end()) {
    return invalid_argument("tensor {} has a dimension of 0", spec.name);
  }
  const auto bytes = tensor_bytes(spec.dtype, spec.shape);
  if (!bytes) return unsupported("tensor {} takes 4 GiB or more, which QNN does not have", spec.name);
  const bool is_static = spec.kind == TensorKind::kStatic;
  if (spec.data.bytes().size() != (is_static ? *bytes : 0)) {
    return invalid_argument("tensor {} has {} bytes of data, and its shape has {}", spec.name, spec.data.bytes().size(),
                            is_static ? *bytes : 0);
  }
  if (is_fixed_point(spec.dtype) == std::holds_alternative<std::monostate>(spec.quantization)) {
    return invalid_argument("tensor {} is {} and has {} encoding", spec.name, data_type_name(spec.dtype),
                            is_fixed_point(spec.dtype) ? "no" : "an");
  }
  if (const auto* const lpbq = std::get_if<Lpbq>(&spec.quantization)) return check_lpbq(spec, *lpbq);
  if (const auto* const per_axis = std::get_if<PerAxis>(&spec.quantization)) {
    TANDEM_TRY(check_axis(spec, per_axis->axis, per_axis->entries.size()));
    return check_scales(spec, per_axis->entries);
  }
  if (const auto* const encoding = std::get_if<ScaleOffset>(&spec.quantization)) {
    return check_scales(spec, {encoding, 1});
  }
  return {};
}

TensorSpec make_tensor(TensorKind kind, std::string name, DataType dtype, Shape shape,
                       std::optional<ScaleOffset> encoding) {
  TensorSpec spec;
  spec.name = std::move(name);
  spec.kind = kind;
  spec.dtype = dtype;
  spec.shape = std::move(shape);
  if (encoding) spec.quantization = *encoding;
  return spec;
}

TensorSpec make_static_f16(std::string name, Shape shape, std::span<const float> values) {
  return make_static(std::move(name), DataType::kFloat16, std::move(shape), f16_bytes(values));
}

TensorSpec make_static_i32(std::string name, Shape shape, std::span<const int32_t> values) {
  return make_static(std::move(name), DataType::kInt32, std::move(shape), bytes_of(values));
}

TensorSpec make_static_u32(std::string name, Shape shape, std::span<const uint32_t> values) {
  return make_static(std::move(name), DataType::kUint32, std::move(shape), bytes_of(values));
}

TensorSpec make_static_fixed(std::string name, DataType dtype, Shape shape, std::span<const float> values,
                             ScaleOffset encoding) {
  const size_t each = element_bytes(dtype);
  std::vector<uint8_t> bytes(values.size() * each);
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t quantized = quantize(dtype, encoding, values[i]);
    std::memcpy(bytes.data() + i * each, &quantized, each);  // Little endian: the low bytes hold the value.
  }
  TensorSpec spec = make_static(std::move(name), dtype, std::move(shape), std::move(bytes));
  spec.quantization = encoding;
  return spec;
}

ScaleOffset encoding_for_range(DataType dtype, float lowest, float highest) {
  const QuantizedRange range = quantized_range(dtype);
  lowest = std::min(lowest, 0.0f);
  highest = std::max(highest, 0.0f);
  constexpr float kSmallest = 1e-20f;  // A range of nothing but zero still needs a scale.
  if (range.lowest < 0) {
    const float most = std::max(-lowest, highest);
    return {std::max(most / static_cast<float>(range.highest), kSmallest), 0};
  }
  const double scale =
      std::max((static_cast<double>(highest) - lowest) / static_cast<double>(range.highest), double{kSmallest});
  return {static_cast<float>(scale), static_cast<int32_t>(std::nearbyint(lowest / scale))};
}

int64_t quantize(DataType dtype, const ScaleOffset& encoding, float value) {
  const QuantizedRange range = quantized_range(dtype);
  if (std::isnan(value)) value = 0.0f;
  const double rounded = std::nearbyint(static_cast<double>(value) / encoding.scale) - encoding.offset;
  return static_cast<int64_t>(
      std::clamp(rounded, static_cast<double>(range.lowest), static_cast<double>(range.highest)));
}

Result<TensorSpec> make_conv2d_weights(std::string name, const WeightMatrix& weights) {
  TANDEM_TRY(check_weights(name, weights));
  const auto rows = static_cast<size_t>(weights.rows);
  const auto cols = static_cast<size_t>(weights.cols);
  Shape shape = {1, 1, static_cast<uint32_t>(cols), static_cast<uint32_t>(rows)};
  if (!is_quantized(weights.format)) {
    const std::vector<float> values = transposed(as_floats(weights).data(), rows, cols);
    return make_static(std::move(name), DataType::kFloat16, std::move(shape), f16_bytes(values));
  }
  const auto* const quantized = reinterpret_cast<const uint8_t*>(weights.quantized.data());
  TensorSpec spec =
      make_static(std::move(name), DataType::kFixedS8, std::move(shape), transposed(quantized, rows, cols));
  spec.quantization = quantization_of(weights, 3);
  return spec;
}

}  // namespace tandem::qnn
