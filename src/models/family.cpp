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
                    .qkv_bias = BiasKind::kAlways});

    // Qwen3: norms over each head of q and k; biases only if config.json asks for them.
    list.push_back(
        {.name = "qwen3",
         .architectures = {"Qwen3ForCausalLM"},
         .model_types = {"qwen3"},
         .names = {.q_norm = "model.layers.{}.self_attn.q_norm", .k_norm = "model.layers.{}.self_attn.k_norm"},
         .qkv_bias = BiasKind::kByConfig,
         .o_bias = BiasKind::kByConfig,
         .qk_norm = true});
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
