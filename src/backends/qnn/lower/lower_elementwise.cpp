// Elementwise ops of one or two tensors.
#include "backends/qnn/lower/graph_lowering.h"
#include "base/error.h"

namespace tandem::qnn {

Status GraphLowering::binary(std::string_view type) {
  const Layout layout = values_.common(in_id(0), in_id(1));
  TANDEM_ASSIGN(const TensorRef a, values_.get(in_id(0), layout));
  TANDEM_ASSIGN(const TensorRef b, values_.get(in_id(1), layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node(type, {a, b}, y);
}

Status GraphLowering::unary(std::string_view type) {
  const Layout layout = values_.common(in_id(), in_id());
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node(type, {x}, y);
}

Status GraphLowering::scale() {
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  const Layout layout = values_.common(in_id(), in_id());
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef factor, constant(make_scalar(out().name + "#factor", type, op_->attributes.factor)));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("ElementWiseMultiply", {x, factor}, y);
}

Status GraphLowering::softcap() {
  const float cap = op_->attributes.factor;
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  const Layout layout = values_.common(in_id(), in_id());
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef down, constant(make_scalar(out().name + "#down", type, 1.0f / cap)));
  TANDEM_ASSIGN(const TensorRef up, constant(make_scalar(out().name + "#up", type, cap)));
  // The same quantized values before and after the division; Tanh takes a symmetric range of 1 only.
  TensorType divided = type, unit = type;
  if (!type.is_float()) {
    divided.encoding = ScaleOffset{type.encoding->scale / cap, type.encoding->offset};
    unit = {DataType::kFixedU16, ScaleOffset{1.0f / 32768, -32768}};
  }
  TANDEM_ASSIGN(const TensorRef small, between("divided", divided, layout.shape));
  TANDEM_ASSIGN(const TensorRef bent, between("tanh", unit, layout.shape));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  TANDEM_TRY(emitter_.node("ElementWiseMultiply", {x, down}, small));
  TANDEM_TRY(emitter_.node("Tanh", {small}, bent));
  return emitter_.node("ElementWiseMultiply", {bent, up}, y);
}

Status GraphLowering::add_vector() {
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  TANDEM_ASSIGN(const std::vector<float>* bias, vector(1));
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), values_.rows(in_id())));
  TANDEM_ASSIGN(const TensorRef b,
                constant(make_constant(in(1).name + "#bias", type, {1, 1, 1, dim(width(in()))}, *bias)));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.rows(out_id())));
  return emitter_.node("ElementWiseAdd", {x, b}, y);
}

// The only mover that requantizes correctly.
Status GraphLowering::concat() {
  const bool by_heads = in().shape.size() == 3;
  Layout all = values_.rows(out_id());
  if (by_heads) {
    all = values_.with_last(in_id(), width(in()));
    all.shape.back() = dim(width(out()));
  }
  std::vector<TensorRef> parts;
  for (size_t i = 0; i < op_->inputs.size(); ++i) {
    Layout each = all;
    each.shape.back() = dim(width(in(i)));
    TANDEM_ASSIGN(const TensorRef part, values_.get(in_id(i), each));
    parts.push_back(part);
  }
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), all));
  return emitter_.node("Concat", std::move(parts), y, {{"axis", static_cast<uint32_t>(all.shape.size() - 1)}});
}

Status GraphLowering::convert() { return reencode(in_id(), out_id(), values_.common(in_id(), in_id())); }

}  // namespace tandem::qnn
