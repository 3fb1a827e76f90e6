#include <algorithm>

#include "compiler/passes/passes.h"

namespace tandem {

Status share_tied_lm_head(ir::Graph& graph, const PassContext& context) {
  const auto embedding = graph.find(ir::PurposeKind::kEmbedding, ir::TensorRole::kWeight);
  const auto head = graph.find(ir::PurposeKind::kLmHead, ir::TensorRole::kWeight);
  if (!context.plan.tied || !embedding || !head) return ok_status();
  const Recipe& recipe = context.recipe;
  // The rotation folds the final norm into the LM head.
  if (recipe.transforms.rotate_residual) return ok_status();
  if (!(recipe.spec_for(graph.at(*embedding).name) == recipe.spec_for(graph.at(*head).name))) return ok_status();
  for (ir::Op& op : graph.ops) std::ranges::replace(op.inputs, *head, *embedding);
  graph.remove_unused_tensors();
  return ok_status();
}

}  // namespace tandem
