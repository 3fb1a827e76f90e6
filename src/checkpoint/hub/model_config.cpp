#include "checkpoint/hub/model_config.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/hub/config_reader.h"
#include "checkpoint/hub/rope_config.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

// Far above any existing model; products of two of them fit an int64, and a graph of that size is still refused before
// memory runs out.
constexpr int64_t kMaxHidden = 1'000'000;
constexpr int64_t kMaxIntermediate = 10'000'000;
constexpr int64_t kMaxLayers = 10'000;
constexpr int64_t kMaxHeads = 65'536;
constexpr int64_t kMaxHeadDim = 65'536;
constexpr int64_t kMaxVocab = 10'000'000;
constexpr int64_t kMaxPositions = INT32_MAX;

// Keys that affect training, saving or sampling, but not the forward pass of a decoder. Keys that Hugging Face's own
// code for a family never reads are here too.
constexpr std::string_view kHarmless[] = {
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_from_model_config",
    "_name_or_path",
    "activation_dropout",
    "add_cross_attention",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "auto_map",
    "bad_words_ids",
    "begin_suppress_tokens",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cross_attention_hidden_size",
    "custom_pipelines",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "early_stopping",
    "embd_pdrop",
    "encoder_no_repeat_ngram_size",
    "exponential_decay_length_penalty",
    "finetuning_task",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "full_attn_mod",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "initializer_range",
    "interpolate_factor",
    "is_decoder",
    "is_llama_config",
    "label2id",
    "length_penalty",
    "max_length",
    "max_new_tokens",
    "min_length",
    "n_ctx",
    "no_repeat_ngram_size",
    "num_beam_groups",
    "num_beams",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_scores",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "pruned_heads",
    "remove_invalid_values",
    "repetition_penalty",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "scale_attn_weights",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "suppress_tokens",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torchscript",
    "transformers.js_config",
    "transformers_version",
    "typical_p",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
};

Status refuse_other_kinds(ConfigReader& reader, const Json& json) {
  const std::string& what = reader.what();
  for (const char* key : {"quantization_config", "compression_config"}) {
    const auto it = json.find(key);
    if (it == json.end() || it->is_null()) continue;
    std::string method;
    if (const auto name = it->find("quant_method"); it->is_object() && name != it->end() && name->is_string()) {
      method = str_format(" by {}", printable_name(name->get_ref<const std::string&>()));
    }
    return unsupported(
        "{}: this checkpoint is already quantized{} ({}); use the original one in float32, float16 or bfloat16", what,
        method, key);
  }
  TANDEM_ASSIGN(const auto encoder_decoder, reader.boolean({"is_encoder_decoder"}));
  if (encoder_decoder.value_or(false)) {
    return unsupported("{}: this is an encoder-decoder model; only decoders can be compiled", what);
  }
  if (json.contains("text_config") && !json.contains("hidden_size")) {
    return unsupported("{}: this is a model of several modalities (text_config); use its text-only checkpoint", what);
  }
  return ok_status();
}

Status read_sizes(ConfigReader& reader, ModelConfig& config) {
  const std::string& what = reader.what();
  TANDEM_ASSIGN(config.vocab_size, reader.required_size({"vocab_size"}, kMaxVocab));
  TANDEM_ASSIGN(config.hidden_size, reader.required_size({"hidden_size", "n_embd"}, kMaxHidden));
  TANDEM_ASSIGN(config.num_layers, reader.required_size({"num_hidden_layers", "n_layer"}, kMaxLayers));
  TANDEM_ASSIGN(config.num_heads, reader.required_size({"num_attention_heads", "n_head"}, kMaxHeads));
  TANDEM_ASSIGN(config.max_position_embeddings,
                reader.required_size({"max_position_embeddings", "n_positions"}, kMaxPositions));

  TANDEM_ASSIGN(const auto intermediate, reader.size({"intermediate_size", "n_inner"}, kMaxIntermediate));
  if (intermediate) {
    config.intermediate_size = *intermediate;
  } else if (config.raw.contains("n_embd")) {
    config.intermediate_size = 4 * config.hidden_size;  // GPT-2's rule, which CodeGen keeps.
  } else {
    return corrupt("{}: key \"intermediate_size\" is missing", what);
  }

  TANDEM_ASSIGN(const auto kv_heads, reader.size({"num_key_value_heads"}, kMaxHeads));
  config.num_kv_heads = kv_heads.value_or(config.num_heads);
  if (config.num_heads % config.num_kv_heads != 0) {
    return corrupt("{}: num_attention_heads ({}) is not a multiple of num_key_value_heads ({})", what, config.num_heads,
                   config.num_kv_heads);
  }
  TANDEM_ASSIGN(const auto head_dim, reader.size({"head_dim"}, kMaxHeadDim));
  config.head_dim_given = head_dim.has_value();
  if (!head_dim && config.hidden_size % config.num_heads != 0) {
    return corrupt("{}: hidden_size ({}) is not a multiple of the number of heads ({}), and there is no head_dim", what,
                   config.hidden_size, config.num_heads);
  }
  config.head_dim = head_dim.value_or(config.hidden_size / config.num_heads);
  if (config.num_heads * config.head_dim > kMaxIntermediate) {
    return corrupt("{}: {} heads of {} are more than any model has", what, config.num_heads, config.head_dim);
  }
  return ok_status();
}

Status read_layers(ConfigReader& reader, ModelConfig& config) {
  const std::string& what = reader.what();
  TANDEM_ASSIGN(const auto eps, reader.number({"rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"}));
  if (!eps) return corrupt("{}: key \"rms_norm_eps\" or \"layer_norm_epsilon\" is missing", what);
  if (!(*eps >= 0 && *eps < 1)) return corrupt("{}: a norm epsilon of {} makes no sense", what, *eps);
  config.norm_eps = *eps;

  // Gemma has both names, and the first is the one that counts.
  for (const char* key : {"hidden_activation", "hidden_act", "activation_function"}) {
    TANDEM_ASSIGN(const auto act, reader.string({key}));
    if (act && config.hidden_act.empty()) config.hidden_act = *act;
  }
  TANDEM_ASSIGN(const auto attention_bias, reader.boolean({"attention_bias"}));
  TANDEM_ASSIGN(const auto mlp_bias, reader.boolean({"mlp_bias"}));
  config.attention_bias = attention_bias.value_or(false);
  config.mlp_bias = mlp_bias.value_or(false);
  TANDEM_ASSIGN(config.lm_head_bias, reader.boolean({"lm_head_bias"}));
  TANDEM_ASSIGN(config.tie_word_embeddings, reader.boolean({"tie_word_embeddings"}));

  TANDEM_ASSIGN(config.query_pre_attn_scalar, reader.positive({"query_pre_attn_scalar"}));
  TANDEM_ASSIGN(config.attn_logit_softcapping, reader.positive({"attn_logit_softcapping"}));
  TANDEM_ASSIGN(config.final_logit_softcapping, reader.positive({"final_logit_softcapping"}));
  TANDEM_ASSIGN(config.attention_multiplier, reader.positive({"attention_multiplier"}));
  TANDEM_ASSIGN(config.embedding_multiplier, reader.positive({"embedding_multiplier"}));
  TANDEM_ASSIGN(config.residual_multiplier, reader.positive({"residual_multiplier"}));
  TANDEM_ASSIGN(config.logits_scaling, reader.positive({"logits_scaling"}));
  return ok_status();
}

Status read_windows(ConfigReader& reader, ModelConfig& config) {
  const std::string& what = reader.what();
  TANDEM_ASSIGN(config.use_sliding_window, reader.boolean({"use_sliding_window"}));
  if (config.use_sliding_window.value_or(true)) {
    TANDEM_ASSIGN(config.sliding_window, reader.size({"sliding_window"}, kMaxPositions));
  } else {
    reader.ignore("sliding_window");
  }
  TANDEM_ASSIGN(config.max_window_layers, reader.integer({"max_window_layers"}));
  if (config.max_window_layers && (*config.max_window_layers < 0 || *config.max_window_layers > kMaxLayers)) {
    return corrupt("{}: key \"max_window_layers\" is {}, but must be between 0 and {}", what, *config.max_window_layers,
                   kMaxLayers);
  }
  TANDEM_ASSIGN(config.sliding_window_pattern,
                reader.size({"sliding_window_pattern", "_sliding_window_pattern"}, kMaxLayers));
  TANDEM_ASSIGN(config.use_bidirectional_attention, reader.boolean({"use_bidirectional_attention"}));

  const auto check_length = [&](size_t length, const char* key) -> Status {
    if (length == 0 || length == static_cast<size_t>(config.num_layers)) return ok_status();
    return corrupt("{}: key \"{}\" has {} items, but there are {} layers", what, key, length, config.num_layers);
  };
  TANDEM_ASSIGN(config.layer_types, reader.strings("layer_types"));
  TANDEM_TRY(check_length(config.layer_types.size(), "layer_types"));

  TANDEM_ASSIGN(config.no_rope_layers, reader.integers("no_rope_layers"));
  TANDEM_TRY(check_length(config.no_rope_layers.size(), "no_rope_layers"));
  for (const int64_t flag : config.no_rope_layers) {
    if (flag != 0 && flag != 1) return corrupt("{}: key \"no_rope_layers\" must hold 0 and 1 only", what);
  }
  TANDEM_ASSIGN(config.no_rope_layer_interval, reader.size({"no_rope_layer_interval"}, kMaxLayers));
  return ok_status();
}

Status read_rotary(ConfigReader& reader, ModelConfig& config) {
  TANDEM_TRY(read_rope(reader, config));
  TANDEM_ASSIGN(config.rope_interleaved, reader.boolean({"rope_interleaved"}));
  TANDEM_ASSIGN(config.rotary_dim, reader.size({"rotary_dim"}, kMaxHeadDim));
  if (config.rotary_dim && (*config.rotary_dim > config.head_dim || *config.rotary_dim % 2 != 0)) {
    return corrupt("{}: rotary_dim is {}, but must be even and not above the head size ({})", reader.what(),
                   *config.rotary_dim, config.head_dim);
  }
  return ok_status();
}

Status read_names_and_tokens(ConfigReader& reader, ModelConfig& config) {
  TANDEM_ASSIGN(const auto architectures, reader.strings("architectures"));
  if (!architectures.empty()) config.architecture = architectures[0];
  TANDEM_ASSIGN(const auto model_type, reader.string({"model_type"}));
  config.model_type = model_type.value_or("");
  TANDEM_ASSIGN(const auto dtype, reader.string({"dtype", "torch_dtype"}));
  config.dtype = dtype.value_or("");
  if (config.dtype.starts_with("torch.")) config.dtype.erase(0, 6);
  TANDEM_ASSIGN(config.bos_token_id, reader.token_id("bos_token_id"));
  TANDEM_ASSIGN(config.eos_token_ids, reader.token_ids("eos_token_id"));
  TANDEM_ASSIGN(config.pad_token_id, reader.token_id("pad_token_id"));
  return ok_status();
}

}  // namespace

Result<ModelConfig> ModelConfig::from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) return corrupt("{}: should be a JSON object, but is {}", what, json.type_name());
  ModelConfig config;
  config.raw = json;
  ConfigReader reader(config.raw, what);
  TANDEM_TRY(refuse_other_kinds(reader, config.raw));
  TANDEM_TRY(read_names_and_tokens(reader, config));
  TANDEM_TRY(read_sizes(reader, config));
  TANDEM_TRY(read_layers(reader, config));
  TANDEM_TRY(read_windows(reader, config));
  TANDEM_TRY(read_rotary(reader, config));
  for (const std::string_view key : kHarmless) reader.ignore(key);
  for (std::string& key : reader.unread()) config.unread_keys.push_back(std::move(key));
  std::sort(config.unread_keys.begin(), config.unread_keys.end());
  return config;
}

Result<ModelConfig> ModelConfig::parse(std::string_view text, std::string_view what) {
  TANDEM_ASSIGN(const Json json, parse_json(text, what));
  return from_json(json, what);
}

}  // namespace tandem
