#include "backends/qnn/compile/shard_source.h"

#include "compiler/source_hash.h"

namespace tandem {
namespace {

bool is_in(const ShardRange& shard, const ir::Purpose& purpose) {
  const int64_t layer = purpose.layer;
  if (layer >= 0) return layer >= shard.layer_begin && layer < shard.layer_end;
  return shard.head || shard.layer_begin == 0;  // The LM head's, the embedding's, rotary tables.
}

}  // namespace

Result<uint64_t> hash_shard_source(const SourceWeights& weights, const ModelPlan& plan, const ShardRange& shard) {
  SourceHash hash;
  for (const WeightSource& weight : plan.weights) {
    if (is_in(shard, weight.purpose)) TANDEM_TRY(hash.add_weight(weights, weight.name));
  }
  for (const VectorSource& vector : plan.vectors) {
    if (is_in(shard, vector.purpose)) TANDEM_TRY(hash.add_weight(weights, vector.name));
  }
  return hash.value();
}

}  // namespace tandem
