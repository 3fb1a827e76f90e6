#include "base/error.h"
#include "compiler/passes/passes.h"

namespace tandem {

Status assign_weight_formats(ir::Graph& graph, const PassContext& context) {
  for (ir::Tensor& tensor : graph.tensors) {
    if (tensor.role != ir::TensorRole::kWeight) continue;
    set_weight_format(tensor, context.recipe.spec_for(tensor.name));
  }
  for (ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kLinear) continue;
    const ir::Tensor& weight = graph.at(op.inputs[1]);
    op.attributes.quantize_input = is_quantized(weight.format);
    if (!op.attributes.quantize_input) continue;
    const ActivationFormat format = context.recipe.activations_for(linear_layer_name(weight));
    if (format == ActivationFormat::kAuto) {
      return invalid_argument(
          "activations \"auto\" are chosen when a file is compiled for a CPU: use that file, or a recipe with int8 or "
          "int16");
    }
    op.attributes.int16_input = format == ActivationFormat::kInt16;
  }
  return ok_status();
}

}  // namespace tandem
