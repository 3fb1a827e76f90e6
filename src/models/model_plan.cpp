#include "models/model_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/error.h"
#include "models/rope_table.h"

namespace tandem {
namespace {

// Tensors that some exporters add and no forward pass needs.
bool is_ignorable(std::string_view name) {
  return name.ends_with(".rotary_emb.inv_freq") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".attn.causal_mask") || name.ends_with(".attn.bias");
}

std::string supported_architectures() {
  std::string list;
  for (const FamilySpec& family : families()) {
    for (const std::string_view name : family.architectures) list += (list.empty() ? "" : ", ") + std::string(name);
  }
  return list;
}

class Planner {
 public:
  explicit Planner(const Checkpoint& checkpoint) : checkpoint_(checkpoint), config_(checkpoint.config()) {}

  Result<ModelPlan> run() {
    plan_.family = find_family(config_.architecture, config_.model_type);
    if (plan_.family == nullptr) {
      const std::string& name = config_.architecture.empty() ? config_.model_type : config_.architecture;
      return unsupported("architecture \"{}\" is not supported; these are: {}", name, supported_architectures());
    }
    family_ = plan_.family;
    TANDEM_TRY(settle_numbers());
    TANDEM_TRY(settle_layers());
    TANDEM_TRY(collect_sources());
    TANDEM_TRY(check_all_used());
    for (const std::string& key : config_.unread_keys) {
      plan_.warnings.push_back(fmt::format("config.json: key \"{}\" is unknown and was ignored", key));
    }
    return std::move(plan_);
  }

 private:
  bool bias(BiasKind kind, bool by_config) const {
    return kind == BiasKind::kAlways || (kind == BiasKind::kByConfig && by_config);
  }

  Status settle_numbers() {
    plan_.architecture = config_.architecture;
    plan_.vocab_size = config_.vocab_size;
    plan_.hidden_size = config_.hidden_size;
    plan_.intermediate_size = config_.intermediate_size;
    plan_.heads = config_.num_heads;
    plan_.kv_heads = config_.num_kv_heads;
    plan_.head_dim = config_.head_dim;
    plan_.max_positions = config_.max_position_embeddings;
    plan_.norm_eps = static_cast<float>(config_.norm_eps);
    const std::string& act = config_.hidden_act;
    if (act == "silu" || act == "swish" || act.empty()) {
      plan_.activation = Activation::kSilu;
    } else if (act == "gelu_pytorch_tanh" || act == "gelu_new") {
      plan_.activation = Activation::kGeluTanh;
    } else {
      return unsupported("config.json: hidden_act \"{}\" is not supported (silu, gelu_pytorch_tanh and gelu_new are)",
                         act);
    }
    plan_.qkv_bias = bias(family_->qkv_bias, config_.attention_bias);
    plan_.o_bias = bias(family_->o_bias, config_.attention_bias);
    plan_.mlp_bias = bias(family_->mlp_bias, config_.mlp_bias);
    plan_.tied = config_.tie_word_embeddings.value_or(family_->default_tied);
    plan_.rope_interleaved = config_.rope_interleaved.value_or(family_->rope_interleaved);
    plan_.attention_softcap = static_cast<float>(config_.attn_logit_softcapping.value_or(0.0));
    plan_.logits_softcap = static_cast<float>(config_.final_logit_softcapping.value_or(0.0));
    plan_.residual_factor = static_cast<float>(config_.residual_multiplier.value_or(1.0));
    const double scaling = config_.logits_scaling.value_or(1.0);
    if (!(scaling > 0.0)) return corrupt("config.json: logits_scaling is {}", scaling);
    plan_.logits_factor = static_cast<float>(1.0 / scaling);
    double scale = 1.0 / std::sqrt(static_cast<double>(plan_.head_dim));
    if (config_.query_pre_attn_scalar) scale = 1.0 / std::sqrt(*config_.query_pre_attn_scalar);
    if (config_.attention_multiplier) scale = *config_.attention_multiplier;
    if (!std::isfinite(scale)) return corrupt("config.json: the attention scale is not a number");
    plan_.attention_scale = static_cast<float>(scale);
    switch (family_->embedding_scale) {
      case EmbeddingScale::kNone: break;
      case EmbeddingScale::kSqrtHidden:
        plan_.embedding_factor = std::sqrt(static_cast<float>(plan_.hidden_size));
        break;
      case EmbeddingScale::kByConfig:
        plan_.embedding_factor = static_cast<float>(config_.embedding_multiplier.value_or(1.0));
        break;
    }
    if (config_.use_bidirectional_attention.value_or(false)) {
      return unsupported("config.json: bidirectional attention is not supported; tandem runs decoders");
    }
    return ok_status();
  }

  bool uses_window(int64_t layer) const {
    if (!config_.sliding_window) return false;
    if (!config_.use_sliding_window.value_or(family_->window_without_switch)) return false;
    if (!config_.layer_types.empty()) return config_.layer_types[static_cast<size_t>(layer)] == "sliding_attention";
    if (config_.max_window_layers) return layer >= *config_.max_window_layers;
    return true;
  }

  Status settle_layers() {
    const double share = config_.rope.partial_rotary_factor.value_or(family_->default_partial_rotary);
    const int64_t rotary_dim =
        config_.rotary_dim.value_or(static_cast<int64_t>(static_cast<double>(plan_.head_dim) * share));
    if (rotary_dim > plan_.head_dim)
      return corrupt("config.json: {} of {} entries rotated", rotary_dim, plan_.head_dim);
    TANDEM_ASSIGN(RopeTable table, make_rope_table(config_.rope, rotary_dim));
    plan_.rope_tables.push_back(std::move(table));
    if (config_.local_rope) {
      TANDEM_ASSIGN(RopeTable local, make_rope_table(*config_.local_rope, rotary_dim));
      plan_.rope_tables.push_back(std::move(local));
    }
    for (const std::string& type : config_.layer_types) {
      if (type != "full_attention" && type != "sliding_attention") {
        return unsupported("config.json: layers of type \"{}\" are not supported", type);
      }
    }
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      LayerPlan layer;
      if (uses_window(i)) {
        layer.window = *config_.sliding_window;
        layer.rope_table = config_.local_rope ? 1 : 0;
      }
      if (!config_.no_rope_layers.empty() && config_.no_rope_layers[static_cast<size_t>(i)] == 0) layer.rope_table = -1;
      plan_.layers.push_back(layer);
    }
    for (size_t i = 0; i < plan_.rope_tables.size(); ++i) {
      const auto& values = plan_.rope_tables[i].inverse_frequency;
      plan_.vectors.push_back({.name = fmt::format("rope.{}.inverse_frequency", i),
                               .length = static_cast<int64_t>(values.size()),
                               .values = values});
    }
    return ok_status();
  }

  // ---- Sources ----

  Result<TensorView> view(const std::string& name, const std::vector<int64_t>& shape) {
    TANDEM_ASSIGN(TensorView tensor, checkpoint_.tensor(name));
    if (tensor.shape != shape) {
      return corrupt("tensor \"{}\" has shape [{}], and config.json asks for [{}]", name, fmt::join(tensor.shape, ", "),
                     fmt::join(shape, ", "));
    }
    if (used_.insert(name).second) plan_.parameters += tensor_rows(tensor) * tensor_row_size(tensor);
    return tensor;
  }

  Status add_weight(std::string name, const std::string& tensor, int64_t row_begin, int64_t rows, int64_t total_rows,
                    int64_t cols) {
    TANDEM_TRY(view(tensor, {total_rows, cols}).status());
    plan_.weights.push_back({std::move(name), rows, cols, {{tensor, row_begin, rows}}});
    return ok_status();
  }

  Status add_vector(std::string name, const std::string& tensor, int64_t begin, int64_t length, int64_t total) {
    TANDEM_TRY(view(tensor, {total}).status());
    plan_.vectors.push_back({.name = std::move(name), .length = length, .tensor = tensor, .begin = begin});
    return ok_status();
  }

  // A linear layer `from` (without ".weight"), whole.
  Status add_linear(const std::string& name, const std::string& from, int64_t rows, int64_t cols, bool with_bias) {
    TANDEM_TRY(add_weight(name, from + ".weight", 0, rows, rows, cols));
    if (with_bias) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", 0, rows, rows));
    return ok_status();
  }

  // Parts of one fused linear layer, in the order of their rows.
  Status add_fused(const std::string& from, std::span<const std::pair<std::string, int64_t>> parts, int64_t cols,
                   bool with_bias) {
    int64_t total = 0;
    for (const auto& [name, rows] : parts) total += rows;
    int64_t begin = 0;
    for (const auto& [name, rows] : parts) {
      TANDEM_TRY(add_weight(name, from + ".weight", begin, rows, total, cols));
      if (with_bias) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", begin, rows, total));
      begin += rows;
    }
    return ok_status();
  }

  Status add_norm(const std::string& name, const std::string& from, int64_t length) {
    TANDEM_TRY(add_vector(name, from + ".weight", 0, length, length));
    if (family_->norm == NormKind::kLayer) TANDEM_TRY(add_vector(name + ".bias", from + ".bias", 0, length, length));
    return ok_status();
  }

  Status collect_layer(int64_t i) {
    const TensorNames& names = family_->names;
    const auto tensor = [&](std::string_view pattern) { return fmt::format(fmt::runtime(pattern), i); };
    const auto name = [&](std::string_view part) { return fmt::format("layers.{}.{}", i, part); };
    const int64_t hidden = plan_.hidden_size, ffn = plan_.intermediate_size;
    const int64_t q_rows = plan_.heads * plan_.head_dim, kv_rows = plan_.kv_heads * plan_.head_dim;

    TANDEM_TRY(add_norm(name("attention.norm"), tensor(names.attention_norm), hidden));
    if (family_->qkv == QkvKind::kFused) {
      const std::pair<std::string, int64_t> parts[] = {
          {name("attention.q"), q_rows}, {name("attention.k"), kv_rows}, {name("attention.v"), kv_rows}};
      TANDEM_TRY(add_fused(tensor(names.qkv), parts, hidden, plan_.qkv_bias));
    } else {
      TANDEM_TRY(add_linear(name("attention.q"), tensor(names.q), q_rows, hidden, plan_.qkv_bias));
      TANDEM_TRY(add_linear(name("attention.k"), tensor(names.k), kv_rows, hidden, plan_.qkv_bias));
      TANDEM_TRY(add_linear(name("attention.v"), tensor(names.v), kv_rows, hidden, plan_.qkv_bias));
    }
    if (family_->qk_norm) {
      TANDEM_TRY(add_norm(name("attention.q_norm"), tensor(names.q_norm), plan_.head_dim));
      TANDEM_TRY(add_norm(name("attention.k_norm"), tensor(names.k_norm), plan_.head_dim));
    }
    TANDEM_TRY(add_linear(name("attention.o"), tensor(names.o), hidden, q_rows, plan_.o_bias));
    if (!names.post_attention_norm.empty()) {
      TANDEM_TRY(add_norm(name("attention.post_norm"), tensor(names.post_attention_norm), hidden));
    }
    if (family_->block == BlockKind::kSequential) {
      TANDEM_TRY(add_norm(name("mlp.norm"), tensor(names.mlp_norm), hidden));
    }
    if (family_->mlp == MlpKind::kGatedFused) {
      const std::pair<std::string, int64_t> parts[] = {{name("mlp.gate"), ffn}, {name("mlp.up"), ffn}};
      TANDEM_TRY(add_fused(tensor(names.gate_up), parts, hidden, plan_.mlp_bias));
    } else {
      if (family_->mlp == MlpKind::kGated) {
        TANDEM_TRY(add_linear(name("mlp.gate"), tensor(names.gate), ffn, hidden, plan_.mlp_bias));
      }
      TANDEM_TRY(add_linear(name("mlp.up"), tensor(names.up), ffn, hidden, plan_.mlp_bias));
    }
    TANDEM_TRY(add_linear(name("mlp.down"), tensor(names.down), hidden, ffn, plan_.mlp_bias));
    if (!names.post_mlp_norm.empty()) {
      TANDEM_TRY(add_norm(name("mlp.post_norm"), tensor(names.post_mlp_norm), hidden));
    }
    return ok_status();
  }

  Status collect_sources() {
    const TensorNames& names = family_->names;
    const std::string embedding(names.embedding), head(names.head);
    TANDEM_TRY(add_weight("embedding", embedding, 0, plan_.vocab_size, plan_.vocab_size, plan_.hidden_size));
    for (int64_t i = 0; i < config_.num_layers; ++i) TANDEM_TRY(collect_layer(i));
    TANDEM_TRY(add_norm("final_norm", std::string(names.final_norm), plan_.hidden_size));
    // A tied model reads its head from the embedding, even where a file has both.
    const std::string head_tensor = plan_.tied ? embedding : head + ".weight";
    TANDEM_TRY(add_weight("head", head_tensor, 0, plan_.vocab_size, plan_.vocab_size, plan_.hidden_size));
    if (plan_.tied) used_.insert(head + ".weight");
    if (family_->head_bias) {
      TANDEM_TRY(add_vector("head.bias", head + ".bias", 0, plan_.vocab_size, plan_.vocab_size));
    }
    return ok_status();
  }

  // A tensor that nothing reads means that the maths would not be the model's.
  Status check_all_used() const {
    for (const std::string& name : checkpoint_.names()) {
      if (!used_.contains(name) && !is_ignorable(name)) {
        return unsupported(
            "the checkpoint has the tensor \"{}\", which {} models do not use; it is not a plain {} "
            "checkpoint",
            name, family_->name, config_.architecture);
      }
    }
    return ok_status();
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const FamilySpec* family_ = nullptr;
  ModelPlan plan_;
  std::unordered_set<std::string> used_;
};

}  // namespace

const WeightSource* ModelPlan::find_weight(std::string_view name) const {
  const auto it = std::ranges::find(weights, name, &WeightSource::name);
  return it == weights.end() ? nullptr : &*it;
}

const VectorSource* ModelPlan::find_vector(std::string_view name) const {
  const auto it = std::ranges::find(vectors, name, &VectorSource::name);
  return it == vectors.end() ? nullptr : &*it;
}

Result<ModelPlan> plan_model(const Checkpoint& checkpoint) { return Planner(checkpoint).run(); }

}  // namespace tandem
