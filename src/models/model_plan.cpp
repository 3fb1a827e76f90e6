#include "models/model_plan.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/safetensors.h"
#include "models/rope_table.h"
#include "models/tensor_sources.h"

namespace tandem {
namespace {

// Gemma 3: every sixth layer sees all positions, unless config.json says otherwise.
constexpr int64_t kWindowPattern = 6;

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
    if (!config_.model_type.empty() &&
        std::ranges::find(family_->model_types, config_.model_type) == family_->model_types.end()) {
      return corrupt(
          "config.json: model_type \"{}\" and architecture \"{}\" contradict each other; put right the one that is "
          "wrong",
          printable_name(config_.model_type), printable_name(config_.architecture));
    }
    TANDEM_TRY(resolve_numbers());
    TANDEM_TRY(resolve_layers());
    TANDEM_TRY(collect_sources(checkpoint_, plan_));
    for (const std::string& key : config_.unread_keys) {
      plan_.warnings.push_back(str_format("config.json: key \"{}\" is unknown and was ignored", key));
    }
    return std::move(plan_);
  }

 private:
  bool bias(BiasKind kind, bool by_config) const {
    return kind == BiasKind::kAlways || (kind == BiasKind::kByConfig && by_config);
  }

  Status resolve_numbers() {
    plan_.architecture = config_.architecture;
    plan_.vocab_size = config_.vocab_size;
    plan_.hidden_size = config_.hidden_size;
    plan_.intermediate_size = config_.intermediate_size;
    plan_.heads = config_.num_heads;
    plan_.kv_heads = config_.num_kv_heads;
    plan_.head_dim =
        config_.head_dim_given || family_->default_head_dim == 0 ? config_.head_dim : family_->default_head_dim;
    plan_.max_positions = config_.max_position_embeddings;
    plan_.norm_eps = static_cast<float>(config_.norm_eps);
    TANDEM_TRY(resolve_activation());
    plan_.qkv_bias = bias(family_->qkv_bias, config_.attention_bias);
    plan_.o_bias = bias(family_->o_bias, config_.attention_bias);
    plan_.mlp_bias = bias(family_->mlp_bias, config_.mlp_bias);
    plan_.tied = config_.tie_word_embeddings.value_or(family_->default_tied);
    plan_.rope_interleaved = config_.rope_interleaved.value_or(family_->rope_interleaved);
    plan_.attention_softcap = static_cast<float>(
        number("attn_logit_softcapping", config_.attn_logit_softcapping, family_->default_attention_cap));
    plan_.logits_softcap = static_cast<float>(
        number("final_logit_softcapping", config_.final_logit_softcapping, family_->default_logits_cap));
    plan_.residual_factor = static_cast<float>(config_.residual_multiplier.value_or(1.0));
    const double scaling = config_.logits_scaling.value_or(1.0);
    if (!(scaling > 0.0)) return corrupt("config.json: logits_scaling is {}", scaling);
    plan_.logits_factor = static_cast<float>(1.0 / scaling);
    const double query_scalar =
        number("query_pre_attn_scalar", config_.query_pre_attn_scalar, family_->default_query_scalar);
    const double factor =
        number("attention_multiplier", config_.attention_multiplier, family_->default_attention_factor);
    double scale = 1.0 / std::sqrt(query_scalar > 0.0 ? query_scalar : static_cast<double>(plan_.head_dim));
    if (factor > 0.0) scale = factor;
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
    if (family_->qkv == QkvKind::kBlocked) {
      // CodeGen2's small models were trained on 8 machines; a head_dim in config.json is the only sign of it.
      plan_.codegen_blocks = config_.head_dim_given ? 8 : 4;
      if (plan_.heads % plan_.codegen_blocks != 0 || plan_.kv_heads != plan_.heads) {
        return corrupt("config.json: {} heads do not go into CodeGen's {} blocks", plan_.heads, plan_.codegen_blocks);
      }
    }
    if (config_.use_bidirectional_attention.value_or(false)) {
      return unsupported("config.json: bidirectional attention is not supported; tandem runs decoders");
    }
    return ok_status();
  }

  Status resolve_activation() {
    const std::string& act = config_.hidden_act;
    const bool gelu_family = family_->activation == Activation::kGeluTanh;
    if (act.empty()) {
      plan_.activation = family_->activation;
    } else if (act == "silu" || act == "swish") {
      plan_.activation = Activation::kSilu;
    } else if (act == "gelu_pytorch_tanh" || act == "gelu_new" || (act == "gelu" && gelu_family)) {
      plan_.activation = Activation::kGeluTanh;
    } else {
      return unsupported("config.json: hidden_act \"{}\" is not supported (silu, gelu_pytorch_tanh and gelu_new are)",
                         act);
    }
    return ok_status();
  }

  // The number, or the family's default if config.json lacks the key (null is not a number).
  double number(const char* key, const std::optional<double>& given, double otherwise) const {
    return given.value_or(config_.raw.contains(key) ? 0.0 : otherwise);
  }

  // The window of a layer, or 0.
  int64_t window_of(int64_t layer) const {
    const int64_t window =
        config_.sliding_window.value_or(config_.raw.contains("sliding_window") ? 0 : family_->default_window);
    if (window == 0 || !config_.use_sliding_window.value_or(family_->window != WindowKind::kBySwitch)) return 0;
    if (family_->window == WindowKind::kNone) return 0;
    const auto at = static_cast<size_t>(layer);
    if (!config_.layer_types.empty()) return config_.layer_types[at] == "sliding_attention" ? window : 0;
    switch (family_->window) {
      case WindowKind::kEvenLayers: return layer % 2 == 0 ? window : 0;
      case WindowKind::kButEveryNth:
        return (layer + 1) % config_.sliding_window_pattern.value_or(kWindowPattern) != 0 ? window : 0;
      case WindowKind::kBySwitch: return layer >= config_.max_window_layers.value_or(0) ? window : 0;
      case WindowKind::kNone:
      case WindowKind::kAll: break;
    }
    return window;
  }

  bool has_rope(int64_t layer) const {
    if (family_->no_rope_interval == 0) return true;
    if (!config_.no_rope_layers.empty()) return config_.no_rope_layers[static_cast<size_t>(layer)] != 0;
    return (layer + 1) % config_.no_rope_layer_interval.value_or(family_->no_rope_interval) != 0;
  }

  Status add_rope_table(RopeConfig rope, double default_theta, int64_t rotary_dim) {
    if (!rope.theta_given) rope.theta = default_theta;
    TANDEM_ASSIGN(RopeTable table, make_rope_table(rope, rotary_dim, plan_.max_positions));
    const std::string name = str_format("rope.{}.", plan_.rope_tables.size());
    const auto add = [&](const char* part, const std::vector<float>& values) {
      if (values.empty()) return;
      plan_.vectors.push_back({.name = name + part, .length = static_cast<int64_t>(values.size()), .values = values});
    };
    add("inverse_frequency", table.inverse_frequency);
    add("long_inverse_frequency", table.long_inverse_frequency);
    plan_.rope_tables.push_back(std::move(table));
    return ok_status();
  }

  Status resolve_layers() {
    const double share = config_.rope.partial_rotary_factor.value_or(family_->default_partial_rotary);
    const int64_t rotary_dim =
        config_.rotary_dim.value_or(static_cast<int64_t>(static_cast<double>(plan_.head_dim) * share));
    if (rotary_dim > plan_.head_dim)
      return corrupt("config.json: {} of {} entries rotated", rotary_dim, plan_.head_dim);
    TANDEM_TRY(add_rope_table(config_.rope, family_->default_theta, rotary_dim));
    const bool has_local_table = config_.local_rope.has_value() || family_->default_local_theta > 0.0;
    if (has_local_table) {
      TANDEM_TRY(add_rope_table(config_.local_rope.value_or(RopeConfig()), family_->default_local_theta, rotary_dim));
    }
    for (const std::string& type : config_.layer_types) {
      if (type != "full_attention" && type != "sliding_attention") {
        return unsupported("config.json: layers of type \"{}\" are not supported", type);
      }
    }
    for (int64_t i = 0; i < config_.num_layers; ++i) {
      LayerPlan layer;
      layer.window = window_of(i);
      layer.rope_table = !has_rope(i) ? -1 : layer.window > 0 && has_local_table ? 1 : 0;
      plan_.layers.push_back(layer);
    }
    return ok_status();
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const FamilySpec* family_ = nullptr;
  ModelPlan plan_;
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
