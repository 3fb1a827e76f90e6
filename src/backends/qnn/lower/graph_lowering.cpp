#include "backends/qnn/lower/graph_lowering.h"

#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "ir/op_table.h"

namespace tandem::qnn {

using ir::OpKind;

std::vector<MatrixUse> GraphLowering::matrix_uses() const {
  std::vector<MatrixUse> uses;
  for (const ir::Op& op : graph_.ops) {
    MatrixUse use;
    if (op.kind == OpKind::kLinear) {
      use.weight = &graph_.at(op.inputs[1]);
    } else if (op.kind == OpKind::kEmbedding && !op.attributes.on_host) {
      use.weight = &graph_.at(op.inputs[1]);
      use.rows_like = &graph_.at(op.outputs[0]);
    } else {
      continue;
    }
    uses.push_back(use);
  }
  return uses;
}

Status GraphLowering::add_matrix(const TensorSpec& spec) {
  TANDEM_ASSIGN(const TensorRef ref, emitter_.add(spec));
  constants_.emplace(spec.name, ref);
  return {};
}

Status GraphLowering::lower() {
  TANDEM_TRY(values_.add_inputs());
  for (size_t i = 0; i < graph_.ops.size(); ++i) {
    op_ = &graph_.ops[i];
    Status status = lower_op();
    for (const TensorId id : op_->outputs) {
      if (status.ok()) status = values_.finish(id);
    }
    if (!status.ok()) {
      const std::string_view tensor = op_->outputs.empty() ? in().name : out().name;
      return with_context(std::move(status).error(), "op {} ({}, \"{}\")", i, op_kind_name(op_->kind), tensor);
    }
  }
  return {};
}

// Ops of the dynamic form, and those that the passes split for fixed graphs.
Status GraphLowering::check_support() const {
  const ir::OpInfo& info = op_info(op_->kind);
  if (info.is_static()) return {};
  if (info.looks_across_tokens || op_->kind == OpKind::kMaskToFloat) {
    return unsupported("HTP graphs do not update their caches; expand attention into matmul and softmax first");
  }
  return unsupported("HTP has no such op, and the values between its parts have no encodings; split it first");
}

Status GraphLowering::lower_op() {
  TANDEM_TRY(check_support());
  switch (op_->kind) {
    case OpKind::kEmbedding: return embedding();
    case OpKind::kLinear: return linear();
    case OpKind::kRmsNorm: return rms_norm();
    case OpKind::kLayerNorm: return layer_norm();
    case OpKind::kAdd: return binary("ElementWiseAdd");
    case OpKind::kMul: return binary("ElementWiseMultiply");
    case OpKind::kScale: return scale();
    case OpKind::kGeluTanh: return unary("Gelu");
    case OpKind::kSigmoid: return unary("Sigmoid");
    case OpKind::kSoftcap: return softcap();
    case OpKind::kRopeTable: return rope_table();
    case OpKind::kRope: return rope();
    case OpKind::kHadamard: return hadamard();
    case OpKind::kConvert: return convert();
    case OpKind::kSplitHeads: return split_heads();
    case OpKind::kJoinHeads: return join_heads();
    case OpKind::kAppendRows: return append_rows();
    case OpKind::kMatMul: return matmul();
    case OpKind::kAddMask: return add_mask();
    case OpKind::kSoftmax: return softmax();
    case OpKind::kMaskedSoftmax: return masked_softmax();
    case OpKind::kAddVector: return add_vector();
    case OpKind::kConcat: return concat();
    case OpKind::kSlice: return slice();
    case OpKind::kRescore: return unsupported("the CPU rescores logits; cut it out of the graph first");
    case OpKind::kSilu:
    case OpKind::kSiluMul:
    case OpKind::kGeluTanhMul:
    case OpKind::kStoreKv:
    case OpKind::kAttention:
    case OpKind::kQuantizedAttention:
    case OpKind::kMaskToFloat: break;  // check_support() refuses them.
  }
  return unsupported("the QNN back end does not know this op");
}

Result<TensorRef> GraphLowering::between(std::string_view suffix, const TensorType& type, Shape shape) {
  return emitter_.add(TensorKind::kNative, str_format("{}#{}", out().name, suffix), type, std::move(shape));
}

Result<TensorRef> GraphLowering::constant(const TensorSpec& spec) {
  if (const auto found = constants_.find(spec.name); found != constants_.end()) return found->second;
  TANDEM_ASSIGN(const TensorRef ref, emitter_.add(spec));
  constants_.emplace(spec.name, ref);
  return ref;
}

Result<TensorRef> GraphLowering::matrix(const MatrixUse& use) const {
  const auto found = constants_.find(use.name());
  if (found == constants_.end()) return internal_error("weight \"{}\" was not added to the graph", use.weight->name);
  return found->second;
}

// Movers copy quantized values whatever the encodings say: only Convert, Quantize and Dequantize change them.
Status GraphLowering::reencode(TensorId from, TensorId to, const Layout& layout) {
  TANDEM_ASSIGN(const TensorType before, type_of(graph_.at(from)));
  TANDEM_ASSIGN(const TensorType after, type_of(graph_.at(to)));
  if (before.dtype == after.dtype && graph_.at(from).encoding == graph_.at(to).encoding) {
    return values_.alias(to, from);
  }
  if (before.dtype == DataType::kInt32 || after.dtype == DataType::kInt32) {
    return unsupported("\"{}\" and \"{}\": indices have no encodings to change", graph_.at(from).name,
                       graph_.at(to).name);
  }
  TANDEM_ASSIGN(const TensorRef x, values_.get(from, layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(to, layout));
  if (before.is_float()) return emitter_.node("Quantize", {x}, y);
  return emitter_.node(after.is_float() ? "Dequantize" : "Convert", {x}, y);
}

}  // namespace tandem::qnn
