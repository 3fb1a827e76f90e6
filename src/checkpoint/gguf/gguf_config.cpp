#include "checkpoint/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

constexpr GgufArchitecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama", true, false, false, "silu"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2", false, false, false, "silu"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3", false, false, false, "silu"},
    {"gemma", "GemmaForCausalLM", "gemma", false, true, false, "gelu_pytorch_tanh"},
    {"gemma2", "Gemma2ForCausalLM", "gemma2", false, true, true, "gelu_pytorch_tanh"},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text", false, true, true, "gelu_pytorch_tanh"},
};

struct GgufName {
  std::string_view gguf;
  std::string_view hub;
};
constexpr GgufName kGgufTopNames[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};
constexpr GgufName kGgufLayerNames[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_norm", "post_attention_layernorm"},  // But see branch_norms.
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

constexpr std::string_view kFrequencies = "rope_freqs.weight";

class ConfigMaker {
 public:
  ConfigMaker(const GgufContent& content, const GgufArchitecture& architecture)
      : content_(content), architecture_(architecture) {}

  Result<Json> run() {
    config_ = {{"architectures", {architecture_.architecture}}, {"model_type", architecture_.model_type}};
    TANDEM_TRY(refuse_other_kinds());
    TANDEM_TRY(sizes());
    TANDEM_TRY(heads());
    TANDEM_TRY(rope());
    TANDEM_TRY(windows());
    TANDEM_TRY(tokens());
    config_["hidden_act"] = architecture_.activation;
    config_["tie_word_embeddings"] = content_.find_tensor("output.weight") == nullptr;
    if (content_.find_tensor("blk.0.attn_q.bias") != nullptr) config_["attention_bias"] = true;
    return std::move(config_);
  }

 private:
  std::string key(std::string_view name) const { return str_format("{}.{}", architecture_.name, name); }

  Error missing(std::string_view name) const {
    return corrupt("{}: key \"{}\" is missing", content_.what(), key(name));
  }

  Status required(std::string_view name, const char* hub) {
    TANDEM_ASSIGN(const auto value, content_.integer(key(name)));
    if (!value) return missing(name);
    config_[hub] = *value;
    return ok_status();
  }

  Status refuse_other_kinds() const {
    for (const char* name : {"expert_count", "expert_used_count"}) {
      TANDEM_ASSIGN(const auto count, content_.integer(key(name)));
      if (count.value_or(0) > 0) {
        return unsupported("{}: this is a mixture of {} experts; only dense models can be compiled", content_.what(),
                           *count);
      }
    }
    TANDEM_ASSIGN(const auto parts, content_.integer("split.count"));
    if (parts.value_or(1) > 1) {
      return unsupported("{}: this is one of {} parts of a model; put them together with `llama-gguf-split --merge`",
                         content_.what(), *parts);
    }
    TANDEM_ASSIGN(const auto kind, content_.string("general.type"));
    if (kind && *kind != "model") {
      return unsupported("{}: this file holds not a model but: {}", content_.what(), printable_name(*kind));
    }
    return ok_status();
  }

  Status sizes() {
    TANDEM_TRY(required("block_count", "num_hidden_layers"));
    TANDEM_TRY(required("embedding_length", "hidden_size"));
    TANDEM_TRY(required("context_length", "max_position_embeddings"));
    // One number, or one for each layer.
    TANDEM_ASSIGN(const auto widths, content_.integers(key("feed_forward_length")));
    TANDEM_ASSIGN(config_["intermediate_size"], all_equal(widths, "feed_forward_length"));
    TANDEM_ASSIGN(const auto eps, content_.number(key("attention.layer_norm_rms_epsilon")));
    if (!eps) return missing("attention.layer_norm_rms_epsilon");
    config_["rms_norm_eps"] = *eps;
    const GgufTensor* embedding = content_.find_tensor("token_embd.weight");
    if (embedding == nullptr || embedding->shape.size() != 2) {
      return corrupt("{}: there is no tensor \"token_embd.weight\" of two dimensions", content_.what());
    }
    config_["vocab_size"] = embedding->shape[0];
    return ok_status();
  }

  Result<int64_t> all_equal(const std::vector<int64_t>& values, std::string_view name) const {
    if (values.empty()) return missing(name);
    if (std::any_of(values.begin(), values.end(), [&](int64_t value) { return value != values[0]; })) {
      return unsupported("{}: key \"{}\" differs from layer to layer, which is not supported", content_.what(),
                         key(name));
    }
    return values[0];
  }

  Status heads() {
    TANDEM_ASSIGN(const auto heads, content_.integers(key("attention.head_count")));
    TANDEM_ASSIGN(const int64_t count, all_equal(heads, "attention.head_count"));
    config_["num_attention_heads"] = count;
    TANDEM_ASSIGN(const auto kv_heads, content_.integers(key("attention.head_count_kv")));
    if (!kv_heads.empty()) {
      TANDEM_ASSIGN(config_["num_key_value_heads"], all_equal(kv_heads, "attention.head_count_kv"));
    }
    TANDEM_ASSIGN(const auto key_length, content_.integer(key("attention.key_length")));
    TANDEM_ASSIGN(const auto value_length, content_.integer(key("attention.value_length")));
    if (count < 1) return corrupt("{}: {} attention heads make no sense", content_.what(), count);
    head_dim_ = key_length.value_or(config_["hidden_size"].get<int64_t>() / count);
    if (value_length && *value_length != head_dim_) {
      return unsupported("{}: keys of {} and values of {} entries are not supported", content_.what(), head_dim_,
                         *value_length);
    }
    if (key_length) config_["head_dim"] = *key_length;
    return ok_status();
  }

  Status rope() {
    TANDEM_ASSIGN(const auto theta, content_.number(key("rope.freq_base")));
    theta_ = theta.value_or(10000.0);
    config_["rope_theta"] = theta_;
    TANDEM_ASSIGN(const auto rotated, content_.integer(key("rope.dimension_count")));
    if (rotated && *rotated != head_dim_) {
      if (*rotated < 1 || *rotated > head_dim_) {
        return corrupt("{}: {} of {} entries are rotated", content_.what(), *rotated, head_dim_);
      }
      config_["partial_rotary_factor"] = static_cast<double>(*rotated) / static_cast<double>(head_dim_);
    }
    TANDEM_TRY(scaling());
    const GgufTensor* factors = content_.find_tensor(kFrequencies);
    return factors == nullptr ? ok_status() : frequency_factors(*factors);
  }

  Status scaling() {
    TANDEM_ASSIGN(const auto type, content_.string(key("rope.scaling.type")));
    TANDEM_ASSIGN(auto factor, content_.number(key("rope.scaling.factor")));
    if (!factor) {
      TANDEM_ASSIGN(factor, content_.number(key("rope.scale_linear")));  // Its older name.
    }
    if ((type && *type == "none") || (!type && factor.value_or(1.0) == 1.0)) return ok_status();
    Json scaling = {{"rope_type", type ? std::string(*type) : "linear"}};
    if (factor) scaling["factor"] = *factor;
    TANDEM_ASSIGN(const auto original, content_.integer(key("rope.scaling.original_context_length")));
    if (original) scaling["original_max_position_embeddings"] = *original;
    TANDEM_ASSIGN(const auto attention, content_.number(key("rope.scaling.attn_factor")));
    if (attention) scaling["attention_factor"] = *attention;
    config_["rope_scaling"] = std::move(scaling);
    return ok_status();
  }

  // Llama 3's scaling is stored as a divisor for each frequency. If the divisors match a configuration, that is used;
  // otherwise the divisors themselves, as longrope has them.
  Status frequency_factors(const GgufTensor& tensor) {
    const auto pairs = static_cast<size_t>(tensor.shape.empty() ? 0 : tensor.shape[0]);
    if (tensor.shape.size() != 1 || tensor.encoding != WeightEncoding::kF32) {
      return unsupported("{}: tensor \"{}\" is not a row of F32 numbers", content_.what(), tensor.name);
    }
    std::vector<float> factors(pairs);
    decode_elements(tensor.encoding, tensor.bytes.data(), 0, pairs, factors.data());
    if (static_cast<int64_t>(pairs) * 2 != head_dim_ ||
        !std::all_of(factors.begin(), factors.end(), [](float f) { return std::isfinite(f) && f > 0; })) {
      return corrupt("{}: tensor \"{}\" should have {} numbers above 0", content_.what(), tensor.name, head_dim_ / 2);
    }
    if (config_.contains("rope_scaling")) {
      return unsupported("{}: the rope is scaled both by \"{}\" and by \"{}\"", content_.what(), tensor.name,
                         key("rope.scaling.type"));
    }
    if (std::all_of(factors.begin(), factors.end(), [](float f) { return f == 1.0f; })) return ok_status();
    const double factor = *std::max_element(factors.begin(), factors.end());
    std::vector<int64_t> contexts = {8192};  // Llama 3's, then any other power of two.
    for (int64_t context = 16; context <= int64_t{1} << 20; context *= 2) contexts.push_back(context);
    for (const int64_t original : contexts) {
      if (!is_llama3(factors, factor, original)) continue;
      config_["rope_scaling"] = {{"rope_type", "llama3"},
                                 {"factor", factor},
                                 {"low_freq_factor", 1.0},
                                 {"high_freq_factor", 4.0},
                                 {"original_max_position_embeddings", original}};
      return ok_status();
    }
    config_["rope_scaling"] = {{"rope_type", "longrope"},
                               {"short_factor", factors},
                               {"long_factor", factors},
                               {"attention_factor", 1.0},
                               {"original_max_position_embeddings", config_["max_position_embeddings"]}};
    return ok_status();
  }

  // Whether these are Llama 3's factors for this original context, with its usual bands (1 and 4).
  bool is_llama3(const std::vector<float>& factors, double factor, int64_t original) const {
    const auto context = static_cast<double>(original);
    for (size_t i = 0; i < factors.size(); ++i) {
      const double frequency = std::pow(theta_, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim_));
      const double turns = context * frequency / (2.0 * std::numbers::pi);
      double expected = 1.0;
      if (turns < 1.0) {
        expected = factor;
      } else if (turns <= 4.0) {
        const double smooth = (turns - 1.0) / 3.0;
        expected = 1.0 / ((1.0 - smooth) / factor + smooth);
      }
      if (std::abs(static_cast<double>(factors[i]) - expected) > 1e-5 * expected) return false;
    }
    return true;
  }

  // Gemma 2 and 3. The others' files name a window only if the model was trained with one on all layers.
  Status windows() {
    TANDEM_ASSIGN(const auto window, content_.integer(key("attention.sliding_window")));
    TANDEM_ASSIGN(const auto attention_cap, content_.number(key("attn_logit_softcapping")));
    TANDEM_ASSIGN(const auto final_cap, content_.number(key("final_logit_softcapping")));
    if (attention_cap) config_["attn_logit_softcapping"] = *attention_cap;
    if (final_cap) config_["final_logit_softcapping"] = *final_cap;
    if (!architecture_.branch_norms) {
      if (window.value_or(0) > 0) {
        return unsupported("{}: {} models with a sliding window are not supported", content_.what(),
                           architecture_.name);
      }
      return ok_status();
    }
    const bool is_gemma3 = architecture_.name == "gemma3";
    const auto layers = config_["num_hidden_layers"].get<int64_t>();
    // No key says how queries are scaled. All sizes divide by the square root of the head dimension, except the largest
    // of each family, which have 46 and 62 layers.
    const auto hidden = config_["hidden_size"].get<int64_t>(), heads = config_["num_attention_heads"].get<int64_t>();
    config_["query_pre_attn_scalar"] = layers == (is_gemma3 ? 62 : 46) ? hidden / heads : head_dim_;
    if (!window) return missing("attention.sliding_window");
    config_["sliding_window"] = *window;
    TANDEM_ASSIGN(const auto pattern, content_.integer(key("attention.sliding_window_pattern")));
    const int64_t period = pattern.value_or(is_gemma3 ? 6 : 2);
    if (period < 1 || layers < 1 || layers > 10'000) {
      return corrupt("{}: {} layers, every {}th without a window, make no sense", content_.what(), layers, period);
    }
    Json types = Json::array();
    for (int64_t i = 0; i < layers; ++i) {
      types.push_back((i + 1) % period == 0 ? "full_attention" : "sliding_attention");
    }
    config_["layer_types"] = std::move(types);
    if (is_gemma3) {
      TANDEM_ASSIGN(const auto local, content_.number(key("rope.freq_base_swa")));
      config_["rope_local_base_freq"] = local.value_or(10000.0);
    }
    return ok_status();
  }

  Status tokens() {
    for (const auto& [name, hub] :
         {std::pair{"bos", "bos_token_id"}, {"eos", "eos_token_id"}, {"padding", "pad_token_id"}}) {
      TANDEM_ASSIGN(const auto id, content_.integer(str_format("tokenizer.ggml.{}_token_id", name)));
      if (id && *id < config_["vocab_size"].get<int64_t>()) config_[hub] = *id;
    }
    return ok_status();
  }

  const GgufContent& content_;
  const GgufArchitecture& architecture_;
  Json config_;
  int64_t head_dim_ = 0;
  double theta_ = 10000.0;
};

}  // namespace

Result<const GgufArchitecture*> find_gguf_architecture(const GgufContent& content) {
  TANDEM_ASSIGN(const auto name, content.string("general.architecture"));
  if (!name) return corrupt("{}: key \"general.architecture\" is missing", content.what());
  const auto it = std::ranges::find(kArchitectures, *name, &GgufArchitecture::name);
  if (it != std::end(kArchitectures)) return &*it;
  std::string known;
  for (const GgufArchitecture& row : kArchitectures) known += (known.empty() ? "" : ", ") + std::string(row.name);
  return unsupported("{}: GGUF files of architecture \"{}\" are not supported; these are: {}", content.what(),
                     printable_name(*name), known);
}

Result<Json> make_gguf_config(const GgufContent& content, const GgufArchitecture& architecture) {
  return ConfigMaker(content, architecture).run();
}

std::string hub_name_of_gguf(std::string_view name, const GgufArchitecture& architecture) {
  if (name == kFrequencies || name.ends_with(".attn_rot_embd.weight")) return {};
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  const std::string_view stem = name.substr(0, dot), kind = name.substr(dot);  // ".weight" or ".bias"
  for (const GgufName& row : kGgufTopNames) {
    if (stem == row.gguf) return str_format("{}{}", row.hub, kind);
  }
  constexpr std::string_view kBlock = "blk.";
  const size_t end = stem.find('.', kBlock.size());
  if (!stem.starts_with(kBlock) || end == std::string_view::npos) return std::string(name);
  const std::string_view layer = stem.substr(kBlock.size(), end - kBlock.size()), part = stem.substr(end + 1);
  for (const GgufName& row : kGgufLayerNames) {
    if (part != row.gguf) continue;
    const bool before_mlp = architecture.branch_norms && part == "ffn_norm";
    return str_format("model.layers.{}.{}{}", layer, before_mlp ? "pre_feedforward_layernorm" : row.hub, kind);
  }
  return std::string(name);
}

}  // namespace tandem
