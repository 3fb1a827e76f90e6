// What config.json says about a model, as plain data. Both styles are read: the hub's (rope_theta, rope_scaling,
// torch_dtype) and that of transformers 5 (rope_parameters, dtype), and CodeGen's older names (n_embd, n_head, ...).
//
// Only sizes are resolved here. A default that depends on the family (tied embeddings, which layers have a window) is
// resolved in models/: what the file leaves out stays empty.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

// Rotary position embedding.
struct RopeConfig {
  double theta = 10000.0;
  bool theta_given = false;  // False: theta is only the usual default.
  std::string type =
      "default";  // "default", "linear", "dynamic", "yarn", "longrope", "llama3", ... ("su" is "longrope").
  std::optional<double> factor;
  std::optional<double> low_freq_factor;                    // llama3
  std::optional<double> high_freq_factor;                   // llama3
  std::optional<int64_t> original_max_position_embeddings;  // Also if it is outside the rope object.
  std::vector<double> short_factor;                         // longrope
  std::vector<double> long_factor;                          // longrope
  std::optional<double> short_mscale;                       // longrope
  std::optional<double> long_mscale;                        // longrope
  std::optional<double> attention_factor;                   // longrope, yarn
  std::optional<double> beta_fast;                          // yarn
  std::optional<double> beta_slow;                          // yarn
  std::optional<double> mscale;                             // yarn
  std::optional<double> mscale_all_dim;                     // yarn
  std::optional<bool> truncate;                             // yarn
  std::optional<double> partial_rotary_factor;              // In (0, 1]; also if it is at the top of the file.

  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  std::string architecture;  // architectures[0], such as "Qwen3ForCausalLM"; may be empty.
  std::string model_type;    // "qwen3"; may be empty.

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;     // num_heads if the file has none.
  int64_t head_dim = 0;         // hidden_size / num_heads if the file has none.
  bool head_dim_given = false;  // Distinguishes CodeGen2 from CodeGen.
  int64_t max_position_embeddings = 0;

  double norm_eps = 0;     // rms_norm_eps, layer_norm_epsilon, layer_norm_eps
  std::string hidden_act;  // hidden_activation before hidden_act before activation_function; may be empty.
  bool attention_bias = false;
  bool mlp_bias = false;
  std::optional<bool> lm_head_bias;
  std::optional<bool> tie_word_embeddings;

  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // For sliding-window layers, if they have their own.
  std::optional<bool> rope_interleaved;
  std::optional<int64_t> rotary_dim;    // CodeGen: rotated entries of each head.
  std::vector<int64_t> no_rope_layers;  // SmolLM3: one per layer, 1 where rope IS used.
  std::optional<int64_t> no_rope_layer_interval;

  // Nothing if use_sliding_window is false. If that key is absent, the family decides whether this one counts (Qwen:
  // no; others: yes).
  std::optional<int64_t> sliding_window;
  std::optional<bool> use_sliding_window;
  std::optional<int64_t> max_window_layers;
  std::optional<int64_t> sliding_window_pattern;
  std::vector<std::string> layer_types;  // "full_attention" or "sliding_attention", one per layer, or empty.
  std::optional<bool> use_bidirectional_attention;

  std::optional<double> query_pre_attn_scalar;
  std::optional<double> attn_logit_softcapping;
  std::optional<double> final_logit_softcapping;

  // Granite.
  std::optional<double> attention_multiplier;
  std::optional<double> embedding_multiplier;
  std::optional<double> residual_multiplier;
  std::optional<double> logits_scaling;

  std::string dtype;  // "bfloat16"; may be empty. Each tensor has its own, which takes precedence.
  std::optional<int64_t> bos_token_id;
  std::vector<int64_t> eos_token_ids;
  std::optional<int64_t> pad_token_id;

  // Keys that are present, not null, not read, and not known to be irrelevant to the forward pass (dropouts, versions,
  // ...). Keys inside the rope objects are written with a dot: "rope_scaling.mrope_section".
  std::vector<std::string> unread_keys;
  Json raw;

  // `what` names the file in errors.
  static Result<ModelConfig> from_json(const Json& json, std::string_view what = "config.json");
  static Result<ModelConfig> parse(std::string_view text, std::string_view what = "config.json");
};

}  // namespace tandem
