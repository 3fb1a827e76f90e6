#include "compiler/passes/passes.h"

namespace tandem {

Status place_embedding(ir::Graph& graph, const PassContext& context) {
  for (ir::Op& op : graph.ops) {
    if (op.kind == ir::OpKind::kEmbedding) op.attributes.on_host = context.form->embedding_on_host;
  }
  return ok_status();
}

}  // namespace tandem
