// The compiler's passes, one per file, in the order they run. Each turns a graph into an equivalent one, or into one
// that is closer to what a recipe asks for. `tandem compile --dump-ir` prints the graph after each.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "ir/graph.h"
#include "models/model_plan.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

struct PassContext {
  const ModelPlan& plan;
  const Recipe& recipe;
  ir::Encoding logits_encoding = {};  // For integer logits: from calibration.
};

// A model with tied embeddings whose embedding and head have one format keeps one copy of them.
Status share_tied_head(ir::Graph& graph, const PassContext& context);
// Weights get the formats that the recipe gives them, and linear layers with integer weights quantize their input.
Status assign_weight_formats(ir::Graph& graph, const PassContext& context);
// Caches get the recipe's dtype; u8 caches get scales beside them.
Status set_cache_format(ir::Graph& graph, const PassContext& context);
// The mask and the logits get the recipe's dtypes.
Status set_border_dtypes(ir::Graph& graph, const PassContext& context);
// silu(gate) * up becomes one op.
Status fuse_gated_activation(ir::Graph& graph, const PassContext& context);

// Called with the pass's name and the graph after it ("build" before the first).
using DumpCallback = std::function<void(std::string_view pass, const ir::Graph& graph)>;

// Runs them all, verifying the graph after each.
Status run_passes(ir::Graph& graph, const PassContext& context, const DumpCallback& dump);

}  // namespace tandem
