#include "models/builder.h"

#include "backends/interface/method_inputs.h"
#include "base/format.h"

namespace tandem {
namespace {

using ir::OpKind;
using ir::PurposeKind;
using ir::TensorId;
using ir::TensorRole;

class Builder {
 public:
  Builder(const ModelPlan& plan, const MethodShape& shape) : plan_(plan) {
    graph_.name = shape.name;
    graph_.tokens = shape.tokens;
    graph_.context = shape.context;
  }

  ir::Graph run() {
    tokens_ = indices("tokens", {.kind = PurposeKind::kTokens});
    positions_ = indices("positions", {.kind = PurposeKind::kPositions});
    const TensorId mask = graph_.add({.name = "mask",
                                      .role = TensorRole::kInput,
                                      .shape = {graph_.tokens, graph_.context},
                                      .purpose = {.kind = PurposeKind::kMask}});
    mask_ = op(OpKind::kMaskToFloat, {mask}, "mask.f32", graph_.context);
    for (size_t i = 0; i < plan_.rope_tables.size(); ++i) draw_rope_table(i);

    TensorId x = op(OpKind::kEmbedding, {tokens_, weight("embedding")}, "embedding.out", plan_.hidden_size);
    x = scaled(x, plan_.embedding_factor, "embedding.scaled");
    for (size_t i = 0; i < plan_.layers.size(); ++i) x = draw_layer(i, x);
    purpose_ = {.kind = PurposeKind::kFinalNorm};
    x = norm(x, "final_norm", "final_norm.out");
    purpose_ = {.kind = PurposeKind::kLmHead};
    draw_logits(x);
    return std::move(graph_);
  }

 private:
  // ---- Small pieces ----

  TensorId indices(const std::string& name, const ir::Purpose& purpose) {
    return graph_.add(
        {.name = name, .role = TensorRole::kInput, .dtype = DType::kI32, .shape = {graph_.tokens}, .purpose = purpose});
  }

  TensorId activation(const std::string& name, int64_t width) {
    return graph_.add({.name = name, .shape = {graph_.tokens, width}, .purpose = purpose_});
  }

  TensorId op(OpKind kind, std::vector<TensorId> inputs, const std::string& name, int64_t width,
              const ir::OpAttributes& attributes = {}) {
    const TensorId out = activation(name, width);
    graph_.ops.push_back({kind, std::move(inputs), {out}, attributes});
    return out;
  }

  TensorId weight(const std::string& name) {
    if (const auto id = graph_.find(name)) return *id;
    const WeightSource& source = *plan_.find_weight(name);
    return graph_.add(
        {.name = name, .role = TensorRole::kWeight, .shape = {source.rows, source.cols}, .purpose = source.purpose});
  }

  TensorId vector(const std::string& name) {
    if (const auto id = graph_.find(name)) return *id;
    const VectorSource& source = *plan_.find_vector(name);
    return graph_.add({.name = name, .role = TensorRole::kVector, .shape = {source.length}, .purpose = source.purpose});
  }

  int64_t width(TensorId id) const { return graph_.at(id).shape[1]; }

  TensorId linear(TensorId x, const std::string& name, bool bias) {
    const TensorId w = weight(name);
    std::vector<TensorId> inputs = {x, w};
    if (bias) inputs.push_back(vector(name + ".bias"));
    return op(OpKind::kLinear, std::move(inputs), name + ".out", graph_.at(w).shape[0]);
  }

  TensorId norm(TensorId x, const std::string& name, const std::string& out) {
    if (plan_.family->norm == NormKind::kLayer) {
      return op(OpKind::kLayerNorm, {x, vector(name), vector(name + ".bias")}, out, width(x), {.eps = plan_.norm_eps});
    }
    return op(OpKind::kRmsNorm, {x, vector(name)}, out, width(x),
              {.eps = plan_.norm_eps, .weight_offset = plan_.family->norm_weight_offset});
  }

  TensorId scaled(TensorId x, float factor, const std::string& name) {
    return factor == 1.0f ? x : op(OpKind::kScale, {x}, name, width(x), {.factor = factor});
  }

  // ---- The parts of a decoder ----

  TensorId rope_rows(int64_t limit) {
    const std::string name = ir::rope_rows_name(limit);
    if (const auto id = graph_.find(name)) return *id;
    return indices(name, {.kind = PurposeKind::kRopeRows, .limit = limit});
  }

  void draw_rope_table(size_t i) {
    const std::string name = str_format("rope.{}", i);
    const TensorId frequency = vector(name + ".inverse_frequency");
    const int64_t half = graph_.at(frequency).shape[0];
    const TensorId cos = activation(name + ".cos", half), sin = activation(name + ".sin", half);
    std::vector<TensorId> inputs = {positions_, frequency};
    // A sequence that never exceeds the limit needs only one half of the table.
    const RopeTable& table = plan_.rope_tables[i];
    if (!table.long_inverse_frequency.empty() && graph_.context > table.limit) {
      inputs = {rope_rows(table.limit), frequency, vector(name + ".long_inverse_frequency")};
    }
    graph_.ops.push_back({OpKind::kRopeTable, std::move(inputs), {cos, sin}, {.factor = table.factor}});
    rope_tables_.push_back({cos, sin});
  }

  TensorId head_normed(TensorId x, const std::string& name) {
    return plan_.family->qk_norm ? norm(x, name, name + ".out") : x;
  }

  TensorId rotated(TensorId x, int table, const std::string& name) {
    if (table < 0) return x;
    const auto& [cos, sin] = rope_tables_[static_cast<size_t>(table)];
    return op(OpKind::kRope, {x, cos, sin}, name, width(x),
              {.head_dim = plan_.head_dim, .interleaved = plan_.rope_interleaved});
  }

  TensorId cache(const std::string& name, PurposeKind kind) {
    return graph_.add({.name = name,
                       .role = TensorRole::kState,
                       .shape = {plan_.kv_heads, graph_.context, plan_.head_dim},
                       .purpose = {.kind = kind, .layer = purpose_.layer}});
  }

  TensorId draw_attention(size_t i, TensorId h) {
    const std::string layer = str_format("layers.{}.attention.", i);
    const LayerPlan& layer_plan = plan_.layers[i];
    TensorId q = linear(h, layer + "q", plan_.qkv_bias);
    TensorId k = linear(h, layer + "k", plan_.qkv_bias);
    const TensorId v = linear(h, layer + "v", plan_.qkv_bias);
    q = rotated(head_normed(q, layer + "q_norm"), layer_plan.rope_table, layer + "q.rope");
    k = rotated(head_normed(k, layer + "k_norm"), layer_plan.rope_table, layer + "k.rope");
    const TensorId k_cache = cache(str_format("k_cache.{}", i), PurposeKind::kKeyCache);
    const TensorId v_cache = cache(str_format("v_cache.{}", i), PurposeKind::kValueCache);
    const ir::OpAttributes store = {.head_dim = plan_.head_dim};
    graph_.ops.push_back({OpKind::kStoreKv, {k, positions_, k_cache}, {}, store});
    graph_.ops.push_back({OpKind::kStoreKv, {v, positions_, v_cache}, {}, store});
    const TensorId mixed = op(OpKind::kAttention, {q, k_cache, v_cache, mask_, positions_}, layer + "mixed", width(q),
                              {.factor = plan_.attention_scale,
                               .softcap = plan_.attention_softcap,
                               .head_dim = plan_.head_dim,
                               .window = layer_plan.window});
    return linear(mixed, layer + "o", plan_.o_bias);
  }

  TensorId draw_mlp(size_t i, TensorId h) {
    const std::string layer = str_format("layers.{}.mlp.", i);
    const OpKind act = plan_.activation == Activation::kSilu ? OpKind::kSilu : OpKind::kGeluTanh;
    TensorId inner;
    if (plan_.family->mlp == MlpKind::kPlain) {
      const TensorId up = linear(h, layer + "up", plan_.mlp_bias);
      inner = op(act, {up}, layer + "act", width(up));
    } else {
      const TensorId gate = linear(h, layer + "gate", plan_.mlp_bias);
      const TensorId up = linear(h, layer + "up", plan_.mlp_bias);
      const TensorId acted = op(act, {gate}, layer + "act", width(gate));
      inner = op(OpKind::kMul, {acted, up}, layer + "gated", width(up));
    }
    return linear(inner, layer + "down", plan_.mlp_bias);
  }

  // Adds a branch to the residual stream, through its own norm and factor if the family has them.
  TensorId joined(TensorId x, TensorId branch, const std::string& part, std::string_view post_norm) {
    if (!post_norm.empty()) branch = norm(branch, part + "post_norm", part + "post_norm.out");
    branch = scaled(branch, plan_.residual_factor, part + "scaled");
    return op(OpKind::kAdd, {x, branch}, part + "residual", width(x));
  }

  TensorId draw_layer(size_t i, TensorId x) {
    purpose_ = {.layer = static_cast<int32_t>(i)};
    x = draw_branches(i, x);
    graph_.at(x).purpose.kind = PurposeKind::kHidden;
    return x;
  }

  TensorId draw_branches(size_t i, TensorId x) {
    const std::string attention = str_format("layers.{}.attention.", i), mlp = str_format("layers.{}.mlp.", i);
    const TensorNames& names = plan_.family->names;
    const TensorId h = norm(x, attention + "norm", attention + "norm.out");
    if (plan_.family->block == BlockKind::kParallel) {
      const TensorId attended = draw_attention(i, h);
      const TensorId sum = joined(x, attended, attention, names.post_attention_norm);
      return joined(sum, draw_mlp(i, h), mlp, names.post_mlp_norm);
    }
    x = joined(x, draw_attention(i, h), attention, names.post_attention_norm);
    const TensorId h2 = norm(x, mlp + "norm", mlp + "norm.out");
    return joined(x, draw_mlp(i, h2), mlp, names.post_mlp_norm);
  }

  void draw_logits(TensorId x) {
    TensorId y = linear(x, "head", plan_.family->lm_head_bias);
    y = scaled(y, plan_.logits_factor, "head.scaled");
    if (plan_.logits_softcap > 0.0f) {
      y = op(OpKind::kSoftcap, {y}, "head.capped", width(y), {.factor = plan_.logits_softcap});
    }
    const TensorId logits = graph_.add({.name = "logits",
                                        .role = TensorRole::kOutput,
                                        .shape = {graph_.tokens, plan_.vocab_size},
                                        .purpose = {.kind = PurposeKind::kLogits}});
    graph_.ops.push_back({OpKind::kConvert, {y}, {logits}, {}});
  }

  const ModelPlan& plan_;
  ir::Graph graph_;
  TensorId tokens_ = -1;
  TensorId positions_ = -1;
  TensorId mask_ = -1;
  ir::Purpose purpose_;  // Of what is being drawn: its layer, or the part that it belongs to.
  std::vector<std::pair<TensorId, TensorId>> rope_tables_;
};

}  // namespace

ir::Graph build_graph(const ModelPlan& plan, const MethodShape& shape) { return Builder(plan, shape).run(); }

}  // namespace tandem
