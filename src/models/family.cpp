#include "models/family.h"

#include <algorithm>

namespace tandem {
namespace {

const std::vector<FamilySpec>& table() {
  static const std::vector<FamilySpec> kFamilies = [] {
    std::vector<FamilySpec> list;

    // Llama 2, Llama 3.x, SmolLM2: the plain decoder that all others are described against.
    list.push_back({.name = "llama",
                    .architectures = {"LlamaForCausalLM"},
                    .model_types = {"llama"},
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .mlp_bias = BiasKind::kByConfig});

    // Qwen2.5: q, k and v have biases, o has none, and no key of config.json says so.
    list.push_back({.name = "qwen2",
                    .architectures = {"Qwen2ForCausalLM"},
                    .model_types = {"qwen2"},
                    .qkv_bias = BiasKind::kAlways,
                    .window = WindowKind::kBySwitch});

    // Qwen3: norms over each head of q and k; biases only if config.json asks for them.
    list.push_back(
        {.name = "qwen3",
         .architectures = {"Qwen3ForCausalLM"},
         .model_types = {"qwen3"},
         .names = {.q_norm = "model.layers.{}.self_attn.q_norm", .k_norm = "model.layers.{}.self_attn.k_norm"},
         .qkv_bias = BiasKind::kByConfig,
         .o_bias = BiasKind::kByConfig,
         .qk_norm = true,
         .window = WindowKind::kBySwitch,
         .default_head_dim = 128});

    // Gemma 1: norms multiply by 1 + w, the embedding is scaled, and the activation is gelu by its tanh formula, even
    // if an old config.json calls it "gelu".
    list.push_back({.name = "gemma",
                    .architectures = {"GemmaForCausalLM"},
                    .model_types = {"gemma"},
                    .norm_weight_offset = 1.0f,
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .embedding_scale = EmbeddingScale::kSqrtHidden,
                    .activation = Activation::kGeluTanh,
                    .default_tied = true,
                    .default_head_dim = 256});

    // Gemma 2: norms on the branches too, caps on scores and logits, a window in every other layer.
    constexpr TensorNames kGemma2Names = {.post_attention_norm = "model.layers.{}.post_attention_layernorm",
                                          .mlp_norm = "model.layers.{}.pre_feedforward_layernorm",
                                          .post_mlp_norm = "model.layers.{}.post_feedforward_layernorm"};
    list.push_back({.name = "gemma2",
                    .architectures = {"Gemma2ForCausalLM"},
                    .model_types = {"gemma2"},
                    .names = kGemma2Names,
                    .norm_weight_offset = 1.0f,
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .embedding_scale = EmbeddingScale::kSqrtHidden,
                    .window = WindowKind::kEvenLayers,
                    .activation = Activation::kGeluTanh,
                    .default_tied = true,
                    .default_head_dim = 256,
                    .default_query_scalar = 256.0,
                    .default_attention_cap = 50.0,
                    .default_logits_cap = 30.0,
                    .default_window = 4096});

    // Gemma 3 (text): no caps, norms over each head of q and k; layers with a window have their own rotary base.
    TensorNames gemma3_names = kGemma2Names;
    gemma3_names.q_norm = "model.layers.{}.self_attn.q_norm";
    gemma3_names.k_norm = "model.layers.{}.self_attn.k_norm";
    list.push_back({.name = "gemma3",
                    .architectures = {"Gemma3ForCausalLM"},
                    .model_types = {"gemma3_text"},
                    .names = gemma3_names,
                    .norm_weight_offset = 1.0f,
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .qk_norm = true,
                    .embedding_scale = EmbeddingScale::kSqrtHidden,
                    .window = WindowKind::kButEveryNth,
                    .activation = Activation::kGeluTanh,
                    .default_tied = true,
                    .default_head_dim = 256,
                    .default_theta = 1e6,
                    .default_local_theta = 10000.0,
                    .default_query_scalar = 256.0,
                    .default_window = 4096});

    // Phi-3 and Phi-4-mini: fused projections, longrope, part of each head rotated.
    list.push_back(
        {.name = "phi3",
         .architectures = {"Phi3ForCausalLM"},
         .model_types = {"phi3"},
         .names = {.qkv = "model.layers.{}.self_attn.qkv_proj", .gate_up = "model.layers.{}.mlp.gate_up_proj"},
         .qkv = QkvKind::kFused,
         .mlp = MlpKind::kGatedFused,
         .window = WindowKind::kAll});

    // GLM-edge: gate and up fused, the first half of each head rotated in neighbouring pairs.
    list.push_back({.name = "glm",
                    .architectures = {"GlmForCausalLM"},
                    .model_types = {"glm"},
                    .names = {.gate_up = "model.layers.{}.mlp.gate_up_proj"},
                    .qkv_bias = BiasKind::kByConfig,
                    .mlp = MlpKind::kGatedFused,
                    .rope_interleaved = true,
                    .default_partial_rotary = 0.5,
                    .default_head_dim = 128});

    // GLM-4-0414: the same with norms on the branches.
    list.push_back({.name = "glm4",
                    .architectures = {"Glm4ForCausalLM"},
                    .model_types = {"glm4"},
                    .names = {.post_attention_norm = "model.layers.{}.post_self_attn_layernorm",
                              .gate_up = "model.layers.{}.mlp.gate_up_proj",
                              .post_mlp_norm = "model.layers.{}.post_mlp_layernorm"},
                    .qkv_bias = BiasKind::kByConfig,
                    .mlp = MlpKind::kGatedFused,
                    .rope_interleaved = true,
                    .default_partial_rotary = 0.5,
                    .default_head_dim = 128});

    // Granite 3.x: factors on the embedding, the scores, the branches and the logits.
    list.push_back({.name = "granite",
                    .architectures = {"GraniteForCausalLM"},
                    .model_types = {"granite"},
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .mlp_bias = BiasKind::kByConfig,
                    .embedding_scale = EmbeddingScale::kByConfig,
                    .default_attention_factor = 1.0});

    // SmolLM3: every fourth layer has no rotary embedding.
    list.push_back({.name = "smollm3",
                    .architectures = {"SmolLM3ForCausalLM"},
                    .model_types = {"smollm3"},
                    .qkv_bias = BiasKind::kByConfig,
                    .o_bias = BiasKind::kByConfig,
                    .mlp_bias = BiasKind::kByConfig,
                    .window = WindowKind::kBySwitch,
                    .default_tied = true,
                    .default_theta = 2e6,
                    .no_rope_interval = 4});

    // CodeGen and CodeGen2: attention and MLP in parallel after one LayerNorm.
    list.push_back({.name = "codegen",
                    .architectures = {"CodeGenForCausalLM"},
                    .model_types = {"codegen"},
                    .names = {.embedding = "transformer.wte.weight",
                              .final_norm = "transformer.ln_f",
                              .attention_norm = "transformer.h.{}.ln_1",
                              .qkv = "transformer.h.{}.attn.qkv_proj",
                              .o = "transformer.h.{}.attn.out_proj",
                              .up = "transformer.h.{}.mlp.fc_in",
                              .down = "transformer.h.{}.mlp.fc_out"},
                    .norm = NormKind::kLayer,
                    .block = BlockKind::kParallel,
                    .qkv = QkvKind::kBlocked,
                    .mlp = MlpKind::kPlain,
                    .mlp_bias = BiasKind::kAlways,
                    .lm_head_bias = true,
                    .rope_interleaved = true,
                    .activation = Activation::kGeluTanh});
    return list;
  }();
  return kFamilies;
}

}  // namespace

std::span<const FamilySpec> families() { return table(); }

const FamilySpec* find_family(std::string_view architecture, std::string_view model_type) {
  for (const FamilySpec& family : table()) {
    const auto& names = architecture.empty() ? family.model_types : family.architectures;
    if (std::ranges::find(names, architecture.empty() ? model_type : architecture) != names.end()) return &family;
  }
  return nullptr;
}

}  // namespace tandem
