// Any bytes as config.json, generation_config.json, tokenizer_config.json or an index of shards.
#include <cstdlib>

#include "checkpoint/hub/generation_config.h"
#include "checkpoint/hub/model_config.h"
#include "checkpoint/hub/tokenizer_config.h"
#include "checkpoint/hub/weight_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto model = tandem::ModelConfig::parse(text);
  if (model.ok()) {
    // What the rest of the compiler relies on.
    const tandem::ModelConfig& config = *model;
    if (config.num_heads < 1 || config.num_kv_heads < 1 || config.num_heads % config.num_kv_heads != 0) std::abort();
    if (config.hidden_size < 1 || config.head_dim < 1 || config.vocab_size < 1 || config.num_layers < 1) std::abort();
    if (!(config.rope.theta > 0) || !(config.norm_eps >= 0)) std::abort();
  } else if (model.error().message.empty()) {
    std::abort();
  }
  (void)tandem::GenerationConfig::parse(text).ok();
  (void)tandem::TokenizerConfig::parse(text).ok();
  const auto shards = tandem::parse_weight_map(text, "index");
  if (shards.ok()) {
    for (const auto& [name, file] : *shards) {
      if (file.find('/') != std::string::npos || file == "..") std::abort();
    }
  }
  return 0;
}
