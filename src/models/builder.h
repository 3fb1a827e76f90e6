// Draws the graph of a model for one method. All weights are float and all inputs and outputs f32 here: the compiler's
// passes choose formats and dtypes afterwards.
#pragma once

#include <string>

#include "ir/graph.h"
#include "models/model_plan.h"

namespace tandem {

struct MethodShape {
  std::string name;     // "decode", "prefill_32"
  int64_t tokens = 1;   // Tokens per call.
  int64_t context = 0;  // Slots of the KV cache; at least tokens.
};

// Inputs tokens[N], positions[N], mask[N, context]; states k_cache.L, v_cache.L; output logits[N, vocabulary].
ir::Graph build_graph(const ModelPlan& plan, const MethodShape& shape);

}  // namespace tandem
