#include "backends/qnn/compile/shard_source.h"

#include <charconv>

#include "compiler/source_hash.h"

namespace tandem {
namespace {

// The layer of "layers.3.mlp.down" is 3; -1 for weights outside the layers.
int64_t layer_of(std::string_view name) {
  constexpr std::string_view kLayers = "layers.";
  int64_t layer = -1;
  if (name.starts_with(kLayers)) std::from_chars(name.data() + kLayers.size(), name.data() + name.size(), layer);
  return layer;
}

bool is_in(const ShardRange& shard, std::string_view name) {
  const int64_t layer = layer_of(name);
  if (layer >= 0) return layer >= shard.layer_begin && layer < shard.layer_end;
  return shard.head || shard.layer_begin == 0;  // The LM head's, the embedding's, rotary tables.
}

}  // namespace

Result<uint64_t> hash_shard_source(const CheckpointWeights& weights, const ModelPlan& plan, const ShardRange& shard) {
  SourceHash hash;
  for (const WeightSource& weight : plan.weights) {
    if (is_in(shard, weight.name)) TANDEM_TRY(hash.add_weight(weights, weight.name));
  }
  for (const VectorSource& vector : plan.vectors) {
    if (is_in(shard, vector.name)) TANDEM_TRY(hash.add_weight(weights, vector.name));
  }
  return hash.value();
}

}  // namespace tandem
