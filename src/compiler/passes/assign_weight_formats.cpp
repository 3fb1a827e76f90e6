#include "compiler/passes/passes.h"

namespace tandem {

Status assign_weight_formats(ir::Graph& graph, const PassContext& context) {
  for (ir::Tensor& tensor : graph.tensors) {
    if (tensor.role != ir::TensorRole::kWeight) continue;
    const WeightSpec spec = context.recipe.spec_for(tensor.name);
    tensor.format = spec.format;
    tensor.block = spec.format == WeightFormat::kLpbq4 ? spec.block : 0;
  }
  for (ir::Op& op : graph.ops) {
    if (op.kind == ir::OpKind::kLinear) op.attributes.quantize_input = is_quantized(graph.at(op.inputs[1]).format);
  }
  return ok_status();
}

}  // namespace tandem
