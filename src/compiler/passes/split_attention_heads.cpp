#include <fmt/format.h>

#include <map>

#include "base/error.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

using ir::Op;
using ir::OpKind;
using ir::TensorId;

// Rows [begin, end) of a weight or a vector, by name (models/sliced_weights.h reads them).
std::string slice_name(const std::string& name, int64_t begin, int64_t end) {
  return fmt::format("{}[{}:{}]", name, begin, end);
}

class Splitter {
 public:
  explicit Splitter(ir::Graph& graph) : graph_(graph) {}

  Status run() {
    old_ = std::move(graph_.ops);
    graph_.ops = {};
    writer_.assign(graph_.tensors.size(), nullptr);
    for (const Op& op : old_) {
      for (const TensorId id : op.outputs) writer_[static_cast<size_t>(id)] = &op;
      if (op.kind == OpKind::kStoreKv) store_[op.inputs[2]] = &op;
    }
    for (const Op& op : old_) {
      if (op.kind == OpKind::kAttention) {
        TANDEM_TRY(split(op));
      } else if (op.kind != OpKind::kStoreKv) {
        graph_.ops.push_back(op);
      }
    }
    remove_unread_ops();
    graph_.remove_unused_tensors();
    return ok_status();
  }

 private:
  struct HeadCaches {
    TensorId k = -1;
    TensorId v = -1;
  };

  // The columns of one head of `id`, computed by copies of the ops that compute it whole.
  Result<TensorId> head_of(TensorId id, int64_t head, int64_t size) {
    if (const auto it = heads_.find({id, head}); it != heads_.end()) return it->second;
    const Op* op = writer_[static_cast<size_t>(id)];
    if (op == nullptr) return unsupported("\"{}\" cannot be split into heads", graph_.at(id).name);
    Op copy = *op;
    const int64_t begin = head * size, end = begin + size;
    switch (op->kind) {
      case OpKind::kLinear: copy.inputs[1] = slice(op->inputs[1], begin, end); break;
      case OpKind::kAddVector: {
        TANDEM_ASSIGN(copy.inputs[0], head_of(op->inputs[0], head, size));
        copy.inputs[1] = slice(op->inputs[1], begin, end);
        break;
      }
      case OpKind::kRmsNorm:
        if (graph_.at(op->inputs[1]).shape[0] != size) {
          return unsupported("\"{}\" is normed over all heads and cannot be split", graph_.at(id).name);
        }
        [[fallthrough]];
      case OpKind::kRope: {
        TANDEM_ASSIGN(copy.inputs[0], head_of(op->inputs[0], head, size));
        break;
      }
      default: return unsupported("the op {} cannot be split into heads", op_kind_name(op->kind));
    }
    copy.outputs[0] =
        graph_.add({.name = fmt::format("{}.{}", graph_.at(id).name, head), .shape = {graph_.tokens, size}});
    graph_.ops.push_back(std::move(copy));
    return heads_[{id, head}] = graph_.ops.back().outputs[0];
  }

  TensorId slice(TensorId constant, int64_t begin, int64_t end) {
    ir::Tensor part = graph_.at(constant);
    part.name = slice_name(part.name, begin, end);
    part.shape[0] = end - begin;
    if (const auto id = graph_.find(part.name)) return *id;
    return graph_.add(std::move(part));
  }

  // The cache of one key head: a state of its own.
  Result<TensorId> head_cache(TensorId cache, int64_t head, int64_t size) {
    const std::string name = fmt::format("{}.{}", graph_.at(cache).name, head);
    if (const auto id = graph_.find(name)) return *id;
    const Op& store = *store_.at(cache);
    TANDEM_ASSIGN(const TensorId rows, head_of(store.inputs[0], head, size));
    ir::Tensor part = graph_.at(cache);
    part.name = name;
    part.shape[0] = 1;
    const TensorId id = graph_.add(std::move(part));
    graph_.ops.push_back({OpKind::kStoreKv, {rows, store.inputs[1], id}, {}, store.attributes});
    return id;
  }

  Status split(const Op& op) {
    const int64_t size = op.attributes.head_dim, heads = graph_.at(op.inputs[0]).shape[1] / size;
    const int64_t group = heads / graph_.at(op.inputs[1]).shape[0];
    std::vector<TensorId> pieces;
    for (int64_t head = 0; head < heads; ++head) {
      TANDEM_ASSIGN(const TensorId q, head_of(op.inputs[0], head, size));
      TANDEM_ASSIGN(const TensorId k, head_cache(op.inputs[1], head / group, size));
      TANDEM_ASSIGN(const TensorId v, head_cache(op.inputs[2], head / group, size));
      const TensorId piece = graph_.add(
          {.name = fmt::format("{}.{}", graph_.at(op.outputs[0]).name, head), .shape = {graph_.tokens, size}});
      graph_.ops.push_back({OpKind::kAttention, {q, k, v, op.inputs[3], op.inputs[4]}, {piece}, op.attributes});
      pieces.push_back(piece);
    }
    for (const TensorId cache : {op.inputs[1], op.inputs[2]}) graph_.at(cache).role = ir::TensorRole::kActivation;
    graph_.ops.push_back({OpKind::kConcat, std::move(pieces), op.outputs, {}});
    return ok_status();
  }

  // What computed the heads all together is read by nobody now.
  void remove_unread_ops() {
    for (bool again = true; again;) {
      std::vector<bool> read(graph_.tensors.size(), false);
      for (const Op& op : graph_.ops) {
        for (const TensorId id : op.inputs) read[static_cast<size_t>(id)] = true;
      }
      const size_t removed = std::erase_if(graph_.ops, [&](const Op& op) {
        for (const TensorId id : op.outputs) {
          if (read[static_cast<size_t>(id)] || graph_.at(id).role == ir::TensorRole::kOutput) return false;
        }
        return op.kind != OpKind::kStoreKv;
      });
      again = removed > 0;
    }
  }

  ir::Graph& graph_;
  std::vector<Op> old_;
  std::vector<const Op*> writer_;
  std::map<TensorId, const Op*> store_;
  std::map<std::pair<TensorId, int64_t>, TensorId> heads_;
};

}  // namespace

Status split_attention_heads(ir::Graph& graph, const PassContext& context) {
  return context.form->split_heads ? Splitter(graph).run() : ok_status();
}

}  // namespace tandem
