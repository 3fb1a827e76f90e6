#include <map>

#include "compiler/passes/passes.h"

namespace tandem {
namespace {

using ir::OpKind;
using ir::TensorId;

// The rotated `id`, which takes its place as an op's input.
TensorId add_rotation(ir::Graph& graph, TensorId id, int64_t head_dim, std::vector<ir::Op>& ops) {
  ir::Tensor rotated = graph.at(id);
  rotated.name += ".hadamard";
  const TensorId out = graph.add(std::move(rotated));
  ops.push_back({OpKind::kHadamard, {id}, {out}, {.head_dim = head_dim}});
  return out;
}

}  // namespace

// Both rotations come right before the keys are stored: ops in front stay as they are, and a CPU computes all of it in
// one step with the rotary embedding.
Status rotate_keys(ir::Graph& graph, const PassContext& context) {
  if (!context.recipe.transforms.rotate_keys) return ok_status();
  std::map<TensorId, size_t> readers;  // By key cache: the attention.
  for (size_t i = 0; i < graph.ops.size(); ++i) {
    if (is_attention(graph.ops[i].kind)) readers[graph.ops[i].inputs[1]] = i;
  }
  std::vector<ir::Op> old = std::move(graph.ops), ops;
  for (ir::Op& op : old) {
    const auto reader = op.kind == OpKind::kStoreKv ? readers.find(op.inputs[2]) : readers.end();
    if (reader != readers.end()) {
      const int64_t size = op.attributes.head_dim;
      TensorId& queries = old[reader->second].inputs[0];
      queries = add_rotation(graph, queries, size, ops);
      op.inputs[0] = add_rotation(graph, op.inputs[0], size, ops);
    }
    ops.push_back(std::move(op));
  }
  graph.ops = std::move(ops);
  return ok_status();
}

}  // namespace tandem
