#include "runtime/hidden_output.h"

#include <vector>

namespace tandem {
namespace {

// The last value of the final norm, which the LM head reads; -1: there is none that could be an output.
ir::TensorId find_hidden(const ir::Graph& graph) {
  ir::TensorId found = -1;
  for (const ir::Op& op : graph.ops) {
    for (const ir::TensorId id : op.outputs) {
      if (graph.at(id).purpose.kind == ir::PurposeKind::kFinalNorm) found = id;
    }
  }
  if (found < 0) return -1;
  const ir::Tensor& tensor = graph.at(found);
  const bool fits =
      tensor.role == ir::TensorRole::kActivation && tensor.shape.size() == 2 && tensor.shape[0] == graph.tokens;
  return fits ? found : -1;
}

}  // namespace

Artifact with_hidden_output(Artifact program) {
  if (!program.header().shards.empty()) return program;
  std::vector<ir::TensorId> outputs;
  for (const ir::Graph& graph : program.header().methods) {
    outputs.push_back(find_hidden(graph));
    if (outputs.back() < 0) return program;
  }
  for (size_t i = 0; i < outputs.size(); ++i) program.make_output(i, outputs[i]);
  return program;
}

}  // namespace tandem
