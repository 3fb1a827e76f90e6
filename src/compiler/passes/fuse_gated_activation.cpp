#include <algorithm>
#include <optional>

#include "compiler/passes/passes.h"

namespace tandem {
namespace {

std::optional<ir::OpKind> fused_kind(ir::OpKind activation) {
  if (activation == ir::OpKind::kSilu) return ir::OpKind::kSiluMul;
  if (activation == ir::OpKind::kGeluTanh) return ir::OpKind::kGeluTanhMul;
  return std::nullopt;
}

}  // namespace

Status fuse_gated_activation(ir::Graph& graph, const PassContext&) {
  std::vector<int> uses(graph.tensors.size(), 0);
  std::vector<int64_t> writer(graph.tensors.size(), -1);
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    for (const ir::TensorId id : graph.ops[i].inputs) ++uses[static_cast<size_t>(id)];
    for (const ir::TensorId id : graph.ops[i].outputs) writer[static_cast<size_t>(id)] = static_cast<int64_t>(i);
  }
  std::vector<bool> removed(graph.ops.size(), false);
  for (ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kMul) continue;
    const ir::TensorId acted = op.inputs[0];
    const int64_t from = writer[static_cast<size_t>(acted)];
    if (from < 0 || uses[static_cast<size_t>(acted)] != 1) continue;
    const ir::Op& activation = graph.ops[static_cast<size_t>(from)];
    const auto kind = fused_kind(activation.kind);
    if (!kind) continue;
    op.kind = *kind;
    op.inputs[0] = activation.inputs[0];
    removed[static_cast<size_t>(from)] = true;
  }
  std::vector<ir::Op> kept;
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (!removed[i]) kept.push_back(std::move(graph.ops[i]));
  }
  graph.ops = std::move(kept);
  return ok_status();
}

}  // namespace tandem
