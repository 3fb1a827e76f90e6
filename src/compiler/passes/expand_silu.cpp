#include "compiler/passes/passes.h"

namespace tandem {

Status expand_silu(ir::Graph& graph, const PassContext&) {
  std::vector<ir::Op> ops;
  for (ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kSilu) {
      ops.push_back(std::move(op));
      continue;
    }
    const ir::TensorId x = op.inputs[0], out = op.outputs[0];
    const ir::TensorId sigmoid = graph.add(
        {.name = graph.at(out).name + ".sigmoid", .shape = graph.at(out).shape, .purpose = graph.at(out).purpose});
    ops.push_back({ir::OpKind::kSigmoid, {x}, {sigmoid}, {}});
    ops.push_back({ir::OpKind::kMul, {x, sigmoid}, {out}, {}});
  }
  graph.ops = std::move(ops);
  return ok_status();
}

}  // namespace tandem
