#include "backends/qnn/lower/constants.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "backends/interface/io_conversion.h"
#include "base/error.h"
#include "base/half.h"

namespace tandem::qnn {
namespace {

constexpr uint64_t kMostBytes = 0xffffffffu;  // Of a QNN tensor.

// Frees the memory; assigning {} would keep it.
template <typename T>
void release(std::vector<T>& values) {
  std::vector<T>().swap(values);
}

// A constant in the dtype and encoding of an IR tensor, whose numbers are encoded as everywhere else
// (backends/interface/io_conversion.h).
struct Encoded {
  TensorSpec spec;
  std::vector<uint8_t> bytes;
};

Result<Encoded> make_encoded(std::string name, const ir::Tensor& like, int64_t rows, int64_t cols) {
  TANDEM_ASSIGN(const TensorType type, type_of(like));
  const uint64_t bytes = static_cast<uint64_t>(rows) * static_cast<uint64_t>(cols) * element_bytes(type.dtype);
  if (bytes > kMostBytes) {
    return unsupported("the table {} of {} x {} is too big for one QNN tensor", name, rows, cols);
  }
  Encoded made;
  made.spec = make_tensor(TensorKind::kStatic, std::move(name), type.dtype, {dim(rows), dim(cols)}, type.encoding);
  made.bytes.resize(bytes);
  return made;
}

// Half floats, transposed tile by tile: [rows, cols] to [cols, rows].
std::vector<uint8_t> transposed_f16(const WeightMatrix& matrix) {
  constexpr int64_t kTile = 64;
  const int64_t rows = matrix.rows, cols = matrix.cols;
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * cols) * sizeof(uint16_t));
  std::vector<float> values(static_cast<size_t>(kTile * cols));
  for (int64_t row = 0; row < rows; row += kTile) {
    const int64_t some = std::min(kTile, rows - row);
    for (int64_t r = 0; r < some; ++r) matrix.dequantize_row(row + r, values.data() + r * cols);
    for (int64_t c = 0; c < cols; ++c) {
      uint16_t column[kTile];
      for (int64_t r = 0; r < some; ++r) column[r] = f16_from_f32(values[static_cast<size_t>(r * cols + c)]);
      std::memcpy(bytes.data() + static_cast<size_t>(c * rows + row) * sizeof(uint16_t), column,
                  static_cast<size_t>(some) * sizeof(uint16_t));
    }
  }
  return bytes;
}

}  // namespace

bool MatrixUse::is_same_constant(const MatrixUse& other) const {
  if (weight->name != other.weight->name || (rows_like == nullptr) != (other.rows_like == nullptr)) return false;
  return rows_like == nullptr ||
         (rows_like->dtype == other.rows_like->dtype && rows_like->encoding == other.rows_like->encoding);
}

Status check_matrix(const ir::Tensor& weight, const WeightMatrix& matrix) {
  if (matrix.rows != weight.shape[0] || matrix.cols != weight.shape[1] || matrix.format != weight.format ||
      (matrix.format == WeightFormat::kLpbq4 && matrix.block != weight.block)) {
    return internal_error("weight \"{}\" should be {} of {} x {}, and {} of {} x {} was given for it", weight.name,
                          weight_format_name(weight.format), weight.shape[0], weight.shape[1],
                          weight_format_name(matrix.format), matrix.rows, matrix.cols);
  }
  const auto count = static_cast<size_t>(matrix.rows * matrix.cols);
  const auto rows = static_cast<size_t>(matrix.rows);
  bool complete = false;
  switch (matrix.format) {
    case WeightFormat::kF32: complete = matrix.f32.size() == count; break;
    case WeightFormat::kF16:
    case WeightFormat::kBF16: complete = matrix.half.size() == count; break;
    case WeightFormat::kI8: complete = matrix.quantized.size() == count && matrix.scales.size() == rows; break;
    case WeightFormat::kLpbq4:
      complete = matrix.quantized.size() == count && matrix.scales.size() == rows &&
                 matrix.multipliers.size() == rows * static_cast<size_t>(matrix.blocks_per_row());
      break;
  }
  if (!complete) return internal_error("weight \"{}\" was given with numbers missing", weight.name);
  return {};
}

Result<TensorSpec> make_table(const MatrixUse& use, const WeightMatrix& matrix) {
  const ir::Tensor& like = *use.rows_like;
  TANDEM_ASSIGN(Encoded table, make_encoded(use.name(), like, matrix.rows, matrix.cols));
  const size_t row_bytes = table.bytes.size() / static_cast<size_t>(matrix.rows);
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    matrix.dequantize_row(r, row.data());
    ir::encode_row(like.dtype, like.encoding, row.data(), matrix.cols,
                   table.bytes.data() + static_cast<size_t>(r) * row_bytes);
  }
  table.spec.data = TensorData::own(std::move(table.bytes));
  return std::move(table.spec);
}

Result<TensorSpec> make_conv2d(const MatrixUse& use, WeightMatrix& matrix) {
  if (is_quantized(matrix.format)) {
    TANDEM_ASSIGN(TensorSpec spec, make_conv2d_weights(use.name(), matrix));
    release(matrix.quantized);
    return spec;
  }
  if (static_cast<uint64_t>(matrix.rows) * static_cast<uint64_t>(matrix.cols) > kMostBytes / sizeof(uint16_t)) {
    return unsupported("weight \"{}\" of {} x {} is too big for one QNN tensor", use.weight->name, matrix.rows,
                       matrix.cols);
  }
  TensorSpec spec =
      make_tensor(TensorKind::kStatic, use.name(), DataType::kFloat16, {1, 1, dim(matrix.cols), dim(matrix.rows)});
  spec.data = TensorData::own(transposed_f16(matrix));
  release(matrix.f32);
  release(matrix.half);
  return spec;
}

Result<const std::vector<float>*> VectorCache::get(const ir::Tensor& vector) {
  auto found = vectors_.find(vector.name);
  if (found == vectors_.end()) {
    TANDEM_ASSIGN(std::vector<float> values, weights_.vector(vector.name));
    if (!std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) {
      return unsupported("vector \"{}\" has a number that is not finite", vector.name);
    }
    found = vectors_.emplace(vector.name, std::move(values)).first;
  }
  if (static_cast<int64_t>(found->second.size()) != vector.shape[0]) {
    return internal_error("vector \"{}\" should have {} numbers, and {} were given for it", vector.name,
                          vector.shape[0], found->second.size());
  }
  return &found->second;
}

TensorSpec make_constant(std::string name, const TensorType& like, Shape shape, std::span<const float> values) {
  if (like.is_float()) return make_static_f16(std::move(name), std::move(shape), values);
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return make_static_fixed(std::move(name), DataType::kFixedU16, std::move(shape), values,
                           encoding_for_range(DataType::kFixedU16, *lowest, *highest));
}

TensorSpec make_scalar(std::string name, const TensorType& like, float value) {
  const Shape shape = {1, 1, 1, 1};
  if (like.is_float()) return make_static_f16(std::move(name), shape, {&value, 1});
  // A power of two of steps: no rounding. Of either sign it fits 16 bits.
  const float scale = value == 0.0f ? 1.0f : std::abs(value) / 32768.0f;
  return make_static_fixed(std::move(name), DataType::kFixedU16, shape, {&value, 1},
                           {scale, value < 0.0f ? -32768 : 0});
}

Result<RopeTables> make_rope_tables(const ir::Tensor& cos, const ir::Tensor& sin,
                                    std::span<const std::vector<float>* const> frequencies, float factor,
                                    int64_t context) {
  const size_t size = frequencies.front()->size();
  const auto width = static_cast<int64_t>(size), rows = context * static_cast<int64_t>(frequencies.size());
  TANDEM_ASSIGN(Encoded cosines, make_encoded(cos.name + "#table", cos, rows, width));
  TANDEM_ASSIGN(Encoded sines, make_encoded(sin.name + "#table", sin, rows, width));
  uint8_t* cos_at = cosines.bytes.data();
  uint8_t* sin_at = sines.bytes.data();
  std::vector<float> cos_row(size);
  std::vector<float> sin_row(size);
  for (const std::vector<float>* const frequency : frequencies) {
    for (int64_t position = 0; position < context; ++position) {
      for (size_t i = 0; i < size; ++i) {
        // In float, as everywhere: at large positions the rounding of the angle matters.
        const float angle = static_cast<float>(position) * (*frequency)[i];
        cos_row[i] = std::cos(angle) * factor;
        sin_row[i] = std::sin(angle) * factor;
      }
      ir::encode_row(cos.dtype, cos.encoding, cos_row.data(), width, cos_at);
      ir::encode_row(sin.dtype, sin.encoding, sin_row.data(), width, sin_at);
      cos_at += dtype_bytes(cos.dtype, size);
      sin_at += dtype_bytes(sin.dtype, size);
    }
  }
  cosines.spec.data = TensorData::own(std::move(cosines.bytes));
  sines.spec.data = TensorData::own(std::move(sines.bytes));
  return RopeTables{std::move(cosines.spec), std::move(sines.spec)};
}

}  // namespace tandem::qnn
