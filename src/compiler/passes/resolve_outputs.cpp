#include "compiler/passes/passes.h"

namespace tandem {
Status resolve_outputs(ir::Graph& graph, const PassContext& context) {
  // No conversion is needed: every op of a fixed graph rounds to its output's dtype and encoding.
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (graph.ops[i].kind != ir::OpKind::kConvert) continue;
    const ir::TensorId from = graph.ops[i].inputs[0], to = graph.ops[i].outputs[0];
    graph.ops.erase(graph.ops.begin() + static_cast<int64_t>(i));
    for (ir::Op& op : graph.ops) {
      for (auto* ids : {&op.inputs, &op.outputs}) {
        for (ir::TensorId& id : *ids) id = id == from ? to : id;
      }
    }
    --i;
  }
  if (context.form->trace) {
    for (ir::Tensor& tensor : graph.tensors) {
      if (tensor.purpose.kind == ir::PurposeKind::kHidden) tensor.role = ir::TensorRole::kOutput;
    }
  }
  graph.remove_unused_tensors();
  return ok_status();
}

}  // namespace tandem
