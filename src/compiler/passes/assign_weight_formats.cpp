#include "compiler/passes/passes.h"

namespace tandem {

Status assign_weight_formats(ir::Graph& graph, const PassContext& context) {
  for (ir::Tensor& tensor : graph.tensors) {
    if (tensor.role != ir::TensorRole::kWeight) continue;
    set_weight_format(tensor, context.recipe.spec_for(tensor.name));
  }
  for (ir::Op& op : graph.ops) {
    if (op.kind == ir::OpKind::kLinear) op.attributes.quantize_input = is_quantized(graph.at(op.inputs[1]).format);
  }
  return ok_status();
}

}  // namespace tandem
