#include <map>

#include "backends/interface/method_inputs.h"
#include "base/error.h"
#include "base/format.h"
#include "compiler/passes/passes.h"

namespace tandem {
namespace {

using ir::OpKind;
using ir::PurposeKind;
using ir::TensorId;
using Heads = AttentionForm::Heads;

// The name of a tensor. A part of a tensor has the whole one's name, followed by '@' and the part
// ("layers.3.attention.scores@2.cache"), and shares the whole tensor's encoding (Tensor::part_of). Caches and new rows
// of one KV head are inputs and outputs, with their own names: "k_cache.3.2" and "k_new.3.2".
struct Label {
  std::string whole;
  std::string piece = {};  // "@2.cache"

  Label part(std::string_view what) const {
    return {whole, str_format("{}{}{}", piece, piece.empty() ? "@" : ".", what)};
  }
};

class Expander {
 public:
  Expander(ir::Graph& graph, const AttentionForm& form, bool fold_mask)
      : graph_(graph), form_(form), fold_mask_(fold_mask) {}

  Status run() {
    old_ = std::move(graph_.ops);
    graph_.ops = {};
    writer_.assign(graph_.tensors.size(), nullptr);
    for (const ir::Op& op : old_) {
      for (const TensorId id : op.outputs) writer_[static_cast<size_t>(id)] = &op;
      if (op.kind == OpKind::kStoreKv) stored_[op.inputs[2]] = op.inputs[0];
    }
    for (const ir::Op& op : old_) {
      switch (op.kind) {
        case OpKind::kStoreKv: break;
        case OpKind::kMaskToFloat: mask_ = op.inputs[0]; break;
        case OpKind::kAttention: expand(op); break;
        case OpKind::kEmbedding:
        case OpKind::kLinear:
        case OpKind::kRmsNorm:
        case OpKind::kLayerNorm:
        case OpKind::kAdd:
        case OpKind::kMul:
        case OpKind::kScale:
        case OpKind::kSilu:
        case OpKind::kGeluTanh:
        case OpKind::kSiluMul:
        case OpKind::kGeluTanhMul:
        case OpKind::kSoftcap:
        case OpKind::kRopeTable:
        case OpKind::kRope:
        case OpKind::kConvert:
        case OpKind::kSplitHeads:
        case OpKind::kJoinHeads:
        case OpKind::kAppendRows:
        case OpKind::kMatMul:
        case OpKind::kAddMask:
        case OpKind::kSoftmax:
        case OpKind::kSigmoid:
        case OpKind::kAddVector:
        case OpKind::kConcat:
        case OpKind::kQuantizedAttention:
        case OpKind::kSlice:
        case OpKind::kMaskedSoftmax:
        case OpKind::kRescore:
        case OpKind::kHadamard: graph_.ops.push_back(op); break;
      }
    }
    if (mask_ >= 0) graph_.at(mask_).shape = {graph_.tokens, graph_.context + graph_.tokens};
    remove_unread_ops();
    graph_.remove_unused_tensors();
    return ok_status();
  }

 private:
  // All keys or values that the call can see, of one KV head or of all.
  struct KvRows {
    TensorId cache = -1;
    TensorId added = -1;  // The call's own rows, which are also an output.
    TensorId all = -1;    // Both in one tensor, where they are multiplied together.
  };
  // Some query heads and the keys and values that they see.
  struct Piece {
    std::string suffix;  // "@3" of one of several.
    TensorId q = -1;     // [heads, tokens, size]
    KvRows k, v;
  };

  // For the layer that is being expanded.
  Label label(std::string_view part, const std::string& piece = {}) const {
    return {str_format("layers.{}.attention.{}", layer_, part), piece};
  }

  TensorId add(OpKind kind, std::vector<TensorId> inputs, const Label& label, std::vector<int64_t> shape,
               const ir::OpAttributes& attributes = {}) {
    const TensorId out = graph_.add({.name = label.whole + label.piece,
                                     .shape = std::move(shape),
                                     .purpose = {.layer = layer_},
                                     .part_of = label.piece.empty() ? std::string() : label.whole});
    graph_.ops.push_back({kind, std::move(inputs), {out}, attributes});
    return out;
  }

  TensorId slice(TensorId whole, int32_t axis, int64_t begin, int64_t length, const Label& label) {
    std::vector<int64_t> shape = graph_.at(whole).shape;
    shape[static_cast<size_t>(axis)] = length;
    ir::OpAttributes attributes;
    attributes.axis = axis;
    attributes.begin = begin;
    return add(OpKind::kSlice, {whole}, label, std::move(shape), attributes);
  }

  // The columns of one head of `id`. Norms and rotations are split by head, on the columns of their inputs; projections
  // stay whole, so that all methods multiply with the same matrices.
  TensorId head_of(TensorId id, int64_t head, int64_t size) {
    if (const auto it = heads_.find({id, head}); it != heads_.end()) return it->second;
    const Label label = Label{graph_.at(id).name}.part(std::to_string(head));
    const ir::Op* op = writer_[static_cast<size_t>(id)];
    const bool by_head = op != nullptr && (op->kind == OpKind::kRope || op->kind == OpKind::kHadamard ||
                                           (op->kind == OpKind::kRmsNorm && graph_.at(op->inputs[1]).shape[0] == size));
    TensorId out = -1;
    if (by_head) {
      std::vector<TensorId> inputs = op->inputs;
      inputs[0] = head_of(op->inputs[0], head, size);
      out = add(op->kind, std::move(inputs), label, {graph_.tokens, size}, op->attributes);
    } else {
      out = slice(id, 1, head * size, size, label);
    }
    return heads_[{id, head}] = out;
  }

  TensorId split_heads(TensorId rows, const Label& label, int64_t size) {
    return add(OpKind::kSplitHeads, {rows}, label, {graph_.at(rows).shape[1] / size, graph_.tokens, size},
               {.head_dim = size});
  }

  // The new rows of one KV head, or of all (-1).
  TensorId new_rows(TensorId cache, int64_t head, const std::string& all_heads, int64_t size) {
    const TensorId rows = stored_.at(cache);
    if (form_.heads == Heads::kTogether) return split_heads(rows, {all_heads}, size);
    const Label one_head = {str_format("{}.{}", all_heads, head)};
    if (form_.heads == Heads::kPerQueryHead) return split_heads(head_of(rows, head, size), one_head, size);
    // One requantization for all heads, then their slices.
    if (!whole_rows_.contains(cache)) {
      const TensorId whole = split_heads(rows, Label{all_heads}.part("all"), size);
      graph_.at(whole).purpose = rows_purpose(cache, PurposeKind::kNewKeys, PurposeKind::kNewValues, -1);
      whole_rows_[cache] = whole;
    }
    return slice(whole_rows_[cache], 0, head, 1, one_head);
  }

  // The purpose of tensors that hold rows of the keys, or of the values, of `cache`.
  ir::Purpose rows_purpose(TensorId cache, PurposeKind keys, PurposeKind values, int64_t head) const {
    return {.kind = ir::is_keys(graph_.at(cache).purpose) ? keys : values,
            .layer = layer_,
            .kv_head = static_cast<int32_t>(head)};
  }

  KvRows kv_rows(TensorId cache, int64_t head, bool apart, int64_t size) {
    if (const auto it = kv_rows_.find({cache, head}); it != kv_rows_.end()) return it->second;
    const bool together = form_.heads == Heads::kTogether;
    const std::string part = together ? "" : str_format(".{}", head);
    const char letter = ir::is_keys(graph_.at(cache).purpose) ? 'k' : 'v';
    const int64_t kv_head = together ? -1 : head;
    KvRows rows;
    rows.cache = cache;
    if (!together) {
      ir::Tensor state = graph_.at(cache);
      state.name += part;
      state.role = ir::TensorRole::kState;
      state.shape[0] = 1;
      state.purpose.kv_head = static_cast<int32_t>(kv_head);
      rows.cache = graph_.add(std::move(state));
      graph_.at(cache).role = ir::TensorRole::kActivation;  // Unused from here on, so it is removed.
    }
    rows.added = new_rows(cache, head, str_format("{}_new.{}", letter, layer_), size);
    graph_.at(rows.added).role = ir::TensorRole::kOutput;
    graph_.at(rows.added).purpose = rows_purpose(cache, PurposeKind::kNewKeys, PurposeKind::kNewValues, kv_head);
    if (!apart) {
      rows.all = add(OpKind::kAppendRows, {rows.cache, rows.added}, {str_format("{}_all.{}{}", letter, layer_, part)},
                     {graph_.at(rows.cache).shape[0], graph_.context + graph_.tokens, size});
      graph_.at(rows.all).purpose = rows_purpose(cache, PurposeKind::kAllKeys, PurposeKind::kAllValues, kv_head);
    }
    return kv_rows_[{cache, head}] = rows;
  }

  // Layers with a window shorter than the context have their own mask.
  TensorId mask_for(int64_t window) {
    if (window == 0 || window >= graph_.context) return mask_;
    const std::string name = ir::window_mask_name(window);
    if (const auto it = window_masks_.find(window); it != window_masks_.end()) return it->second;
    return window_masks_[window] = graph_.add({.name = name,
                                               .role = ir::TensorRole::kInput,
                                               .shape = {graph_.tokens, graph_.context + graph_.tokens},
                                               .purpose = {.kind = PurposeKind::kWindowMask, .limit = window}});
  }

  Piece make_piece(const ir::Op& op, int64_t index) {
    const int64_t size = op.attributes.head_dim, heads = graph_.at(op.inputs[0]).shape[1] / size;
    const int64_t group = heads / graph_.at(op.inputs[1]).shape[0];
    Piece piece;
    if (form_.heads != Heads::kTogether) piece.suffix = str_format("@{}", index);
    const Label whole = label("q.heads"), part = label("q.heads", piece.suffix);
    switch (form_.heads) {
      case Heads::kTogether: piece.q = split_heads(op.inputs[0], whole, size); break;
      case Heads::kPerQueryHead: piece.q = split_heads(head_of(op.inputs[0], index, size), part, size); break;
      case Heads::kPerKvHead:
        if (whole_q_.first != op.inputs[0]) whole_q_ = {op.inputs[0], split_heads(op.inputs[0], whole, size)};
        piece.q = slice(whole_q_.second, 0, index * group, group, part);
        break;
    }
    const int64_t kv_head = form_.heads == Heads::kPerQueryHead ? index / group : index;
    piece.k = kv_rows(op.inputs[1], kv_head, form_.keys_apart, size);
    piece.v = kv_rows(op.inputs[2], kv_head, form_.values_apart, size);
    return piece;
  }

  // q * k, for everything that the call can see.
  TensorId scores_of(const Piece& piece) {
    const Label scores = label("scores", piece.suffix);
    const int64_t heads = graph_.at(piece.q).shape[0], tokens = graph_.tokens, seen = graph_.context + tokens;
    const ir::OpAttributes transposed = {.transpose_b = true};
    if (piece.k.all >= 0)
      return add(OpKind::kMatMul, {piece.q, piece.k.all}, scores, {heads, tokens, seen}, transposed);
    const TensorId cached = add(OpKind::kMatMul, {piece.q, piece.k.cache}, scores.part("cache"),
                                {heads, tokens, graph_.context}, transposed);
    const TensorId own =
        add(OpKind::kMatMul, {piece.q, piece.k.added}, scores.part("own"), {heads, tokens, tokens}, transposed);
    return add(OpKind::kConcat, {cached, own}, scores, {heads, tokens, seen});
  }

  TensorId mixed_of(const Piece& piece, TensorId probabilities) {
    const Label mixed = label("mixed.heads", piece.suffix), seen = label("probabilities", piece.suffix);
    const int64_t heads = graph_.at(piece.q).shape[0], tokens = graph_.tokens, size = graph_.at(piece.q).shape[2];
    if (piece.v.all >= 0) return add(OpKind::kMatMul, {probabilities, piece.v.all}, mixed, {heads, tokens, size});
    const TensorId old_p = slice(probabilities, 2, 0, graph_.context, seen.part("cache"));
    const TensorId own_p = slice(probabilities, 2, graph_.context, tokens, seen.part("own"));
    const TensorId cached = add(OpKind::kMatMul, {old_p, piece.v.cache}, mixed.part("cache"), {heads, tokens, size});
    const TensorId own = add(OpKind::kMatMul, {own_p, piece.v.added}, mixed.part("own"), {heads, tokens, size});
    return add(OpKind::kAdd, {cached, own}, mixed, {heads, tokens, size});
  }

  // Softmax of the scores, times the values: [heads, tokens, size].
  TensorId attend(const Piece& piece, const ir::OpAttributes& a) {
    const std::string& suffix = piece.suffix;
    TensorId scores = scores_of(piece);
    const std::vector<int64_t> shape = graph_.at(scores).shape;
    if (a.softcap > 0.0f) {
      // Softmax multiplies by the factor: cap * tanh(factor * s / cap) is factor times this.
      scores = add(OpKind::kSoftcap, {scores}, label("capped", suffix), shape, {.factor = a.softcap / a.factor});
    }
    const TensorId mask = mask_for(a.window);
    TensorId probabilities = -1;
    if (fold_mask_) {
      probabilities =
          add(OpKind::kMaskedSoftmax, {scores, mask}, label("probabilities", suffix), shape, {.factor = a.factor});
    } else {
      const TensorId masked = add(OpKind::kAddMask, {scores, mask}, label("masked", suffix), shape);
      probabilities = add(OpKind::kSoftmax, {masked}, label("probabilities", suffix), shape, {.factor = a.factor});
    }
    return mixed_of(piece, probabilities);
  }

  void expand(const ir::Op& op) {
    layer_ = graph_.at(op.outputs[0]).purpose.layer;
    const int64_t size = op.attributes.head_dim, heads = graph_.at(op.inputs[0]).shape[1] / size;
    const int64_t pieces = form_.heads == Heads::kTogether       ? 1
                           : form_.heads == Heads::kPerQueryHead ? heads
                                                                 : graph_.at(op.inputs[1]).shape[0];
    std::vector<TensorId> parts;
    for (int64_t i = 0; i < pieces; ++i) {
      const Piece piece = make_piece(op, i);
      const TensorId out = attend(piece, op.attributes);
      if (pieces == 1) {
        graph_.ops.push_back({OpKind::kJoinHeads, {out}, {op.outputs[0]}, {}});
        return;
      }
      parts.push_back(add(OpKind::kJoinHeads, {out}, label("mixed", piece.suffix),
                          {graph_.tokens, graph_.at(out).shape[0] * size}));
    }
    graph_.ops.push_back({OpKind::kConcat, std::move(parts), op.outputs, {}});
  }

  // The ops that computed all heads together may have no readers now.
  void remove_unread_ops() {
    for (bool again = true; again;) {
      std::vector<bool> read(graph_.tensors.size(), false);
      for (const ir::Op& op : graph_.ops) {
        for (const TensorId id : op.inputs) read[static_cast<size_t>(id)] = true;
      }
      const size_t removed = std::erase_if(graph_.ops, [&](const ir::Op& op) {
        for (const TensorId id : op.outputs) {
          if (read[static_cast<size_t>(id)] || graph_.at(id).role == ir::TensorRole::kOutput) return false;
        }
        return true;
      });
      again = removed > 0;
    }
  }

  ir::Graph& graph_;
  const AttentionForm form_;
  const bool fold_mask_;
  int32_t layer_ = -1;  // Whose attention is being expanded.
  std::vector<ir::Op> old_;
  std::vector<const ir::Op*> writer_;    // By TensorId: the op of old_ that writes it.
  std::map<TensorId, TensorId> stored_;  // By cache: what is stored there.
  TensorId mask_ = -1;
  std::map<int64_t, TensorId> window_masks_;
  std::map<std::pair<TensorId, int64_t>, TensorId> heads_;
  std::map<std::pair<TensorId, int64_t>, KvRows> kv_rows_;
  std::map<TensorId, TensorId> whole_rows_;
  std::pair<TensorId, TensorId> whole_q_ = {-1, -1};
};

}  // namespace

Status expand_attention(ir::Graph& graph, const PassContext& context) {
  return Expander(graph, context.form->attention.of(graph.tokens), context.form->fold_mask).run();
}

}  // namespace tandem
