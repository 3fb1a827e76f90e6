#include "compiler/tuning/layer_stages.h"

#include <algorithm>

namespace tandem {
namespace {

using ir::OpKind;

int32_t layer_of(const ir::Graph& graph, const ir::Op& op) {
  const ir::TensorId id = op.outputs.empty() ? op.inputs.back() : op.outputs[0];
  return graph.at(id).purpose.layer;
}

// The only op that reads a tensor, or null.
const ir::Op* only_reader(const ir::Graph& graph, ir::TensorId id) {
  const ir::Op* found = nullptr;
  for (const ir::Op& op : graph.ops) {
    if (std::ranges::find(op.inputs, id) == op.inputs.end()) continue;
    if (found != nullptr) return nullptr;
    found = &op;
  }
  return found;
}

void find_residual(const ir::Graph& graph, Stage& stage) {
  if (stage.linears.size() != 1) return;
  ir::TensorId branch = graph.ops[stage.linears[0]].outputs[0];
  const ir::Op* reader = only_reader(graph, branch);
  float factor = 1.0f;
  if (reader != nullptr && reader->kind == OpKind::kScale) {
    factor = reader->attributes.factor;
    branch = reader->outputs[0];
    reader = only_reader(graph, branch);
  }
  if (reader == nullptr || reader->kind != OpKind::kAdd || factor == 0.0f) return;
  stage.residual = reader->inputs[0] == branch ? reader->inputs[1] : reader->inputs[0];
  stage.residual_factor = factor;
}

LayerStages stages_of(const ir::Graph& graph, size_t begin, size_t end) {
  LayerStages layer;
  size_t from = begin;
  for (size_t i = begin; i < end;) {
    if (graph.ops[i].kind != OpKind::kLinear) {
      ++i;
      continue;
    }
    Stage stage{from, i, {}, graph.ops[i].inputs[0]};
    for (; i < end && graph.ops[i].kind == OpKind::kLinear && graph.ops[i].inputs[0] == stage.input; ++i) {
      stage.linears.push_back(i);
    }
    find_residual(graph, stage);
    from = stage.end;
    layer.stages.push_back(std::move(stage));
  }
  layer.stages.push_back({from, end, {}});
  layer.output = graph.ops[end - 1].outputs[0];
  return layer;
}

}  // namespace

std::vector<LayerStages> plan_stages(const ir::Graph& graph) {
  std::vector<LayerStages> layers;
  for (size_t i = 0; i < graph.ops.size();) {
    const int32_t layer = layer_of(graph, graph.ops[i]);
    size_t end = i + 1;
    while (end < graph.ops.size() && layer_of(graph, graph.ops[end]) == layer) ++end;
    if (layer >= 0) layers.push_back(stages_of(graph, i, end));
    i = end;
  }
  return layers;
}

}  // namespace tandem
