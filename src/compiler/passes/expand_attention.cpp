#include <map>

#include "base/error.h"
#include "compiler/passes/passes.h"
#include "ir/method_inputs.h"

namespace tandem {
namespace {

using ir::OpKind;
using ir::TensorId;

class Expander {
 public:
  explicit Expander(ir::Graph& graph) : graph_(graph) {}

  Status run() {
    const std::vector<ir::Op> old = std::move(graph_.ops);
    graph_.ops = {};
    std::map<TensorId, TensorId> stored;  // By cache: what is stored there.
    for (const ir::Op& op : old) {
      if (op.kind == OpKind::kStoreKv) stored[op.inputs[2]] = op.inputs[0];
    }
    for (const ir::Op& op : old) {
      switch (op.kind) {
        case OpKind::kStoreKv: break;
        case OpKind::kMaskToFloat: mask_ = op.inputs[0]; break;
        case OpKind::kAttention: TANDEM_TRY(expand(op, stored)); break;
        default: graph_.ops.push_back(op); break;
      }
    }
    if (mask_ >= 0) graph_.at(mask_).shape = {graph_.tokens, graph_.context + graph_.tokens};
    graph_.remove_unused_tensors();
    return ok_status();
  }

 private:
  TensorId add(OpKind kind, std::vector<TensorId> inputs, const std::string& name, std::vector<int64_t> shape,
               const ir::OpAttributes& attributes = {}) {
    const TensorId out = graph_.add({.name = name, .shape = std::move(shape)});
    graph_.ops.push_back({kind, std::move(inputs), {out}, attributes});
    return out;
  }

  // All keys or values that the call can see: the cache's slots, then its own rows, which are also an output.
  TensorId all_rows(TensorId cache, const std::map<TensorId, TensorId>& stored, int64_t size) {
    if (const auto it = all_rows_.find(cache); it != all_rows_.end()) return it->second;
    const std::string name = graph_.at(cache).name;  // "k_cache.3" gives "k_new.3" and "k_all.3".
    const std::string letter = name.substr(0, 1), layer = name.substr(name.find('.'));
    const int64_t heads = graph_.at(cache).shape[0];
    const TensorId added = add(OpKind::kSplitHeads, {stored.at(cache)}, letter + "_new" + layer,
                               {heads, graph_.tokens, size}, {.head_dim = size});
    graph_.at(added).role = ir::TensorRole::kOutput;
    const TensorId all = add(OpKind::kAppendRows, {cache, added}, letter + "_all" + layer,
                             {heads, graph_.context + graph_.tokens, size});
    return all_rows_[cache] = all;
  }

  // Layers with a window that is shorter than the context have a mask of their own.
  TensorId mask_for(int64_t window) {
    if (window == 0 || window >= graph_.context) return mask_;
    const std::string name = ir::window_mask_name(window);
    if (const auto id = graph_.find(name)) return *id;
    return graph_.add(
        {.name = name, .role = ir::TensorRole::kInput, .shape = {graph_.tokens, graph_.context + graph_.tokens}});
  }

  Status expand(const ir::Op& op, const std::map<TensorId, TensorId>& stored) {
    const ir::OpAttributes& a = op.attributes;
    const std::string mixed =
        graph_.at(op.outputs[0]).name;  // "layers.3.attention.mixed", perhaps with a head's number.
    const auto named = [&](const char* part) {
      std::string name = mixed;
      return name.replace(name.rfind("mixed"), 5, part);
    };
    const int64_t size = a.head_dim, heads = graph_.at(op.inputs[0]).shape[1] / size;
    const int64_t tokens = graph_.tokens, seen = graph_.context + tokens;
    const TensorId q =
        add(OpKind::kSplitHeads, {op.inputs[0]}, named("q.heads"), {heads, tokens, size}, {.head_dim = size});
    const TensorId k = all_rows(op.inputs[1], stored, size), v = all_rows(op.inputs[2], stored, size);
    TensorId scores = add(OpKind::kMatMul, {q, k}, named("scores"), {heads, tokens, seen}, {.transpose_b = true});
    if (a.softcap > 0.0f) {
      // Softmax multiplies by the factor: cap * tanh(factor * s / cap) is factor times this.
      scores =
          add(OpKind::kSoftcap, {scores}, named("capped"), {heads, tokens, seen}, {.factor = a.softcap / a.factor});
    }
    const TensorId masked = add(OpKind::kAddMask, {scores, mask_for(a.window)}, named("masked"), {heads, tokens, seen});
    const TensorId probabilities =
        add(OpKind::kSoftmax, {masked}, named("probabilities"), {heads, tokens, seen}, {.factor = a.factor});
    const TensorId out = add(OpKind::kMatMul, {probabilities, v}, named("mixed.heads"), {heads, tokens, size});
    graph_.ops.push_back({OpKind::kJoinHeads, {out}, {op.outputs[0]}, {}});
    return ok_status();
  }

  ir::Graph& graph_;
  TensorId mask_ = -1;
  std::map<TensorId, TensorId> all_rows_;
};

}  // namespace

Status expand_attention(ir::Graph& graph, const PassContext&) { return Expander(graph).run(); }

}  // namespace tandem
