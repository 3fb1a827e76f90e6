#include "compiler/passes/passes.h"

namespace tandem {

Status split_bias(ir::Graph& graph, const PassContext&) {
  std::vector<ir::Op> ops;
  for (ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kLinear || op.inputs.size() != 3) {
      ops.push_back(std::move(op));
      continue;
    }
    const ir::TensorId out = op.outputs[0], bias = op.inputs[2];
    const ir::TensorId product = graph.add({.name = graph.at(op.inputs[1]).name + ".product",
                                            .shape = graph.at(out).shape,
                                            .purpose = graph.at(out).purpose});
    ops.push_back({ir::OpKind::kLinear, {op.inputs[0], op.inputs[1]}, {product}, op.attributes});
    ops.push_back({ir::OpKind::kAddVector, {product, bias}, {out}, {}});
  }
  graph.ops = std::move(ops);
  return ok_status();
}

}  // namespace tandem
