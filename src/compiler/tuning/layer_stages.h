// A layer cut where its linear layers begin, so that their weights can be chosen one group after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "ir/graph.h"

namespace tandem {

// Ops [begin, end), after which the inputs of `linears`, which are the next ops, are known.
struct Stage {
  size_t begin = 0;
  size_t end = 0;
  std::vector<size_t> linears;  // They read the same input. Empty in the last stage of a layer.
  ir::TensorId input = -1;
  // What the output of a single linear layer is added to, after it was multiplied by the factor; -1: nothing, or
  // something else happens first.
  ir::TensorId residual = -1;
  float residual_factor = 1.0f;
};

struct LayerStages {
  std::vector<Stage> stages;
  ir::TensorId output = -1;  // The residual stream after the layer.

  size_t begin() const { return stages.front().begin; }
  size_t end() const { return stages.back().end; }
};

// The layers of a graph as the builder draws it.
std::vector<LayerStages> plan_stages(const ir::Graph& graph);

}  // namespace tandem
