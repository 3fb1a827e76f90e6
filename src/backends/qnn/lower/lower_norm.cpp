// RmsNorm and LayerNorm.
#include <algorithm>
#include <cmath>

#include "backends/qnn/api/version_rules.h"
#include "backends/qnn/lower/graph_lowering.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

TensorSpec make_zero_beta(const TensorType& type, int64_t size) {
  constexpr float kScale = 1e-6f;  // Any will do.
  const std::vector<float> zeros(static_cast<size_t>(size), 0.0f);
  const std::string name = str_format("zeros.{}", size);
  if (type.is_float()) return make_static_f16(name, {dim(size)}, zeros);
  return make_static_fixed(name, DataType::kFixedS32, {dim(size)}, zeros, {kScale, 0});
}

std::vector<NodeParam> norm_params(float eps) { return {{"epsilon", eps}, {"axes", U32Values{{1}, {3}}}}; }

}  // namespace

// Over groups of a row: [1, N, groups, size], row by row. Never head by head: RmsNorm on [1, h, N, d] with slices and a
// broadcast product after it is miscompiled.
Status GraphLowering::rms_norm() {
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  TANDEM_ASSIGN(const std::vector<float>* weight, vector(1));
  std::vector<float> gamma(*weight);
  for (float& value : gamma) value += op_->attributes.weight_offset;
  const auto size = static_cast<int64_t>(gamma.size());
  const int64_t groups = width(in()) / size;
  const auto layout = [&](TensorId id) { return groups == 1 ? values_.rows(id) : values_.split(id, groups); };
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout(in_id())));
  const std::string name = in(1).name + (op_->attributes.weight_offset != 0.0f ? "#offset" : "");
  TANDEM_ASSIGN(const TensorRef g, constant(make_constant(name, type, {dim(size)}, gamma)));
  std::vector<TensorRef> inputs = {x, g};
  if (rms_norm_needs_beta(htp_version())) {
    TANDEM_ASSIGN(const TensorRef beta, constant(make_zero_beta(type, size)));
    inputs.push_back(beta);
  }
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout(out_id())));
  return emitter_.node("RmsNorm", inputs, y, norm_params(op_->attributes.eps));
}

Status GraphLowering::layer_norm() {
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  TANDEM_ASSIGN(const std::vector<float>* gamma, vector(1));
  TANDEM_ASSIGN(const std::vector<float>* beta, vector(2));
  if (!type.is_float()) return layer_norm_fixed(type, *gamma, *beta);
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), values_.rows(in_id())));
  const Shape shape = {dim(width(in()))};
  TANDEM_ASSIGN(const TensorRef g, constant(make_constant(in(1).name, type, shape, *gamma)));
  TANDEM_ASSIGN(const TensorRef b, constant(make_constant(in(2).name, type, shape, *beta)));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.rows(out_id())));
  return emitter_.node("LayerNorm", {x, g, b}, y, norm_params(op_->attributes.eps));
}

// HTP's LayerNorm takes a gamma of 8 bits only (with 16 it validates or not, and is wrong). 8 bits for all channels
// cost more than the rest of the layer: so gamma is 1 there, and the real one and beta are applied after it in 16 bits.
Status GraphLowering::layer_norm_fixed(const TensorType& type, const std::vector<float>& gamma,
                                       const std::vector<float>& beta) {
  const Layout rows = values_.rows(in_id());
  const Shape row = {1, 1, 1, dim(width(in()))};
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), rows));
  // No normalized value is beyond the root of their number.
  const float most = std::sqrt(static_cast<float>(gamma.size()));
  const std::vector<float> ones(gamma.size(), 1.0f);
  TANDEM_ASSIGN(const TensorRef one, constant(make_static_fixed(str_format("ones.{}", gamma.size()), DataType::kFixedU8,
                                                                {dim(width(in()))}, ones, {1.0f / 128, 0})));
  TANDEM_ASSIGN(const TensorRef g, constant(make_constant(in(1).name, type, row, gamma)));
  const ScaleOffset unit = encoding_for_range(DataType::kFixedU16, -most, most);
  TANDEM_ASSIGN(const TensorRef normalized, between("normalized", {DataType::kFixedU16, unit}, rows.shape));
  TANDEM_TRY(emitter_.node("LayerNorm", {x, one}, normalized, norm_params(op_->attributes.eps)));
  if (std::ranges::all_of(beta, [](float value) { return value == 0.0f; })) {
    TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), rows));
    return emitter_.node("ElementWiseMultiply", {normalized, g}, y);
  }
  // What is scaled lies in the output's range without beta.
  const auto [lowest, highest] = std::ranges::minmax(beta);
  const ir::Encoding& encoding = out().encoding;
  const float bottom = encoding.scale * static_cast<float>(-encoding.zero_point);
  const float top = encoding.scale * static_cast<float>(dtype_max(out().dtype) - encoding.zero_point);
  const ScaleOffset wide = encoding_for_range(DataType::kFixedU16, bottom - highest, top - lowest);
  TANDEM_ASSIGN(const TensorRef b, constant(make_constant(in(2).name, type, row, beta)));
  TANDEM_ASSIGN(const TensorRef scaled, between("scaled", {DataType::kFixedU16, wide}, rows.shape));
  TANDEM_TRY(emitter_.node("ElementWiseMultiply", {normalized, g}, scaled));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), rows));
  return emitter_.node("ElementWiseAdd", {scaled, b}, y);
}

}  // namespace tandem::qnn
