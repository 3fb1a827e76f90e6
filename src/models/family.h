// Model families as data. A family says how its checkpoints name their tensors and how its maths differs from the plain
// decoder; one builder (builder.h) turns any of them into a graph. There is no code per family.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem {

enum class NormKind { kRms, kLayer };

// How a layer adds its two branches to the residual stream.
enum class BlockKind {
  kSequential,  // x += attention(norm(x)); x += mlp(norm(x))
  kParallel,    // h = norm(x); x += attention(h) + mlp(h)
};

enum class QkvKind {
  kSeparate,  // Three matrices.
  kFused,     // One matrix: the rows of q, then k, then v.
  kBlocked,   // CodeGen's: one matrix of 4 or 8 blocks, each with its heads' rows of q, then v, then k.
};

enum class MlpKind {
  kGated,       // down(act(gate(x)) * up(x))
  kGatedFused,  // The same with one matrix: the rows of gate, then up.
  kPlain,       // down(act(up(x)))
};

enum class BiasKind {
  kNone,
  kAlways,
  kByConfig,  // attention_bias or mlp_bias of config.json.
};

// Which layers have the window that config.json names, if no list (layer_types) says so.
enum class WindowKind {
  kNone,        // The key is ignored.
  kBySwitch,    // If use_sliding_window is true: the layers from max_window_layers on.
  kAll,         // All layers.
  kEvenLayers,  // The first, the third, ...
  kButEveryNth  // All but the last of every sliding_window_pattern (6) layers.
};

enum class Activation { kSilu, kGeluTanh };

enum class EmbeddingScale { kNone, kSqrtHidden, kByConfig /* embedding_multiplier */ };

// Names of a checkpoint's tensors; {} stands for the layer number. Empty: the family has no such tensor.
struct TensorNames {
  std::string_view embedding = "model.embed_tokens.weight";
  std::string_view final_norm = "model.norm";
  std::string_view lm_head = "lm_head";
  std::string_view attention_norm = "model.layers.{}.input_layernorm";
  std::string_view q = "model.layers.{}.self_attn.q_proj";
  std::string_view k = "model.layers.{}.self_attn.k_proj";
  std::string_view v = "model.layers.{}.self_attn.v_proj";
  std::string_view qkv = "";
  std::string_view q_norm = "";
  std::string_view k_norm = "";
  std::string_view o = "model.layers.{}.self_attn.o_proj";
  std::string_view post_attention_norm = "";  // On the branch, before it is added.
  std::string_view mlp_norm = "model.layers.{}.post_attention_layernorm";
  std::string_view gate = "model.layers.{}.mlp.gate_proj";
  std::string_view up = "model.layers.{}.mlp.up_proj";
  std::string_view gate_up = "";
  std::string_view down = "model.layers.{}.mlp.down_proj";
  std::string_view post_mlp_norm = "";  // On the branch, before it is added.
};

struct FamilySpec {
  std::string_view name;
  std::vector<std::string_view> architectures;  // The names in config.json's "architectures".
  std::vector<std::string_view> model_types;    // The names in "model_type", used if architectures are missing.
  TensorNames names = {};
  NormKind norm = NormKind::kRms;
  float norm_weight_offset = 0.0f;  // 1: norms multiply by 1 + w.
  BlockKind block = BlockKind::kSequential;
  QkvKind qkv = QkvKind::kSeparate;
  BiasKind qkv_bias = BiasKind::kNone;
  BiasKind o_bias = BiasKind::kNone;
  MlpKind mlp = MlpKind::kGated;
  BiasKind mlp_bias = BiasKind::kNone;
  bool lm_head_bias = false;
  bool qk_norm = false;  // An RMS norm over each head of q and k, before rope.
  bool rope_interleaved = false;
  EmbeddingScale embedding_scale = EmbeddingScale::kNone;
  WindowKind window = WindowKind::kNone;

  // Defaults for missing keys of config.json, as in Hugging Face's code for the family. 0: none.
  Activation activation = Activation::kSilu;
  double default_partial_rotary = 1.0;  // Share of a head that is rotated.
  bool default_tied = false;            // tie_word_embeddings
  int64_t default_head_dim = 0;         // 0: hidden_size / heads.
  double default_theta = 10000.0;
  double default_local_theta = 0.0;       // For layers with a window; 0: they have no table of their own.
  double default_attention_factor = 0.0;  // attention_multiplier
  double default_query_scalar = 0.0;      // query_pre_attn_scalar
  double default_attention_cap = 0.0;     // attn_logit_softcapping
  double default_logits_cap = 0.0;        // final_logit_softcapping
  int64_t default_window = 0;             // sliding_window
  int64_t no_rope_interval = 0;           // Every n-th layer has no rotary embedding.
};

// All families, in the order the documentation lists them.
std::span<const FamilySpec> families();

// The family of a checkpoint, by architecture, or by model_type if the architecture is empty. Null if there is none.
const FamilySpec* find_family(std::string_view architecture, std::string_view model_type);

}  // namespace tandem
