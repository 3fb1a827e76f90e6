// Linear layers and embeddings: what reads a matrix.
#include "backends/qnn/lower/graph_lowering.h"
#include "base/error.h"

namespace tandem::qnn {

// A 1x1 Conv2d. FullyConnected has the same kernels, but takes no LPBQ weights with more outputs than inputs.
Status GraphLowering::linear() {
  if (op_->inputs.size() > 2) return unsupported("add the bias \"{}\" with an op of its own", in(2).name);
  if (op_->attributes.quantize_input) return unsupported("HTP has no activations with a scale per row");
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  const WeightFormat format = in(1).format;
  if (type.is_float() && is_quantized(format)) {
    return unsupported("HTP multiplies no f16 by {} weights; \"{}\" must be fp16, or the activations u16",
                       weight_format_name(format), in(1).name);
  }
  if (!type.is_float() && !is_quantized(format)) {
    return unsupported("HTP multiplies no u16 by {} weights; \"{}\" must be int8 or lpbq4, or the activations f16",
                       weight_format_name(format), in(1).name);
  }
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), values_.rows(in_id())));
  TANDEM_ASSIGN(const TensorRef w, matrix({&in(1), nullptr}));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.rows(out_id())));
  return emitter_.node("Conv2d", {x, w}, y,
                       {{"stride", U32Values{{2}, {1, 1}}}, {"pad_amount", U32Values{{2, 2}, {0, 0, 0, 0}}}});
}

// Gather fails for indices outside the table: the run time gives padding a valid token.
Status GraphLowering::embedding() {
  if (op_->attributes.on_host) {
    return unsupported("this embedding is looked up by the CPU; cut the graph behind it");
  }
  TANDEM_ASSIGN(const TensorRef table, matrix({&in(1), &out()}));
  const Layout indices = values_.io_layout(in_id());
  TANDEM_ASSIGN(const TensorRef tokens, values_.get(in_id(), indices));
  Layout rows = indices;
  rows.shape.push_back(dim(width(out())));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), rows));
  return emitter_.node("Gather", {table, tokens}, y, {{"axis", int32_t{0}}});
}

}  // namespace tandem::qnn
