#include <algorithm>

#include "compiler/passes/passes.h"

namespace tandem {

Status share_tied_lm_head(ir::Graph& graph, const PassContext& context) {
  const auto embedding = graph.find("embedding"), head = graph.find("head");
  if (!context.plan.tied || !embedding || !head) return ok_status();
  if (!(context.recipe.spec_for("embedding") == context.recipe.spec_for("head"))) return ok_status();
  for (ir::Op& op : graph.ops) std::ranges::replace(op.inputs, *head, *embedding);
  graph.remove_unused_tensors();
  return ok_status();
}

}  // namespace tandem
