// A GGUF file's metadata about a model, as a config.json of the hub.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "checkpoint/gguf/gguf.h"
#include "tandem/status.h"

namespace tandem {

// A model family in GGUF files.
struct GgufArchitecture {
  std::string_view name;          // general.architecture
  std::string_view architecture;  // "LlamaForCausalLM"
  std::string_view model_type;    // "llama"
  bool interleaved_heads;         // The converter reordered the rows of q and k.
  bool norms_plus_one;            // The converter added 1 to the norms' weights.
  bool branch_norms;              // Norms after attention and MLP too, so the one before the MLP has another name.
  std::string_view activation;
};

// Refuses an unsupported family by name.
Result<const GgufArchitecture*> find_gguf_architecture(const GgufContent& content);

// config.json. Sizes that are not in the metadata (the vocabulary) are taken from the tensors.
Result<Json> make_gguf_config(const GgufContent& content, const GgufArchitecture& architecture);

// "model.layers.3.mlp.up_proj.weight" for "blk.3.ffn_up.weight"; unknown names are unchanged; empty for a tensor that
// is not a weight (frequencies).
std::string hub_name_of_gguf(std::string_view name, const GgufArchitecture& architecture);

}  // namespace tandem
