#include <algorithm>

#include "compiler/passes/passes.h"
#include "numerics/fake_quant.h"

namespace tandem {
namespace {

// Rewinding by up to this many tokens needs no recomputation (stop strings, a prompt that ends differently).
constexpr int64_t kTokensToGoBack = 64;
// Kernels process slots in tiles. With whole tiles, and one to spare, sums have the same order as in a cache that keeps
// all positions, and so the same bits, whatever the methods' lengths.
constexpr int64_t kTile = kWeightRun;

}  // namespace

Status shorten_window_caches(ir::Graph& graph, const PassContext& context) {
  const int64_t tokens = std::max(graph.tokens, context.most_tokens);
  for (const ir::Op& op : graph.ops) {
    const int64_t window = op.attributes.window;
    if (op.kind != ir::OpKind::kAttention || window == 0) continue;
    const int64_t wanted = window + tokens + kTokensToGoBack;
    const int64_t slots = std::min(graph.context, (wanted / kTile + 2) * kTile);
    for (const ir::TensorId cache : {op.inputs[1], op.inputs[2]}) graph.at(cache).shape[1] = slots;
  }
  return ok_status();
}

}  // namespace tandem
