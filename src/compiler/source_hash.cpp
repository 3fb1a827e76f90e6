#include "compiler/source_hash.h"

#include "artifact/reader.h"
#include "base/error.h"

namespace tandem {
namespace {

bool is_in(const ShardRange& shard, const ir::Purpose& purpose) {
  const int64_t layer = purpose.layer;
  if (layer >= 0) return layer >= shard.layer_begin && layer < shard.layer_end;
  return shard.head || shard.layer_begin == 0;  // The LM head's, the embedding's, rotary tables.
}

}  // namespace

void SourceHash::add(std::span<const uint8_t> bytes) { hashes_.push_back(hash_bytes(bytes)); }

Status SourceHash::add_weight(const CheckpointWeights& weights, std::string_view name) {
  add({reinterpret_cast<const uint8_t*>(name.data()), name.size()});
  return weights.visit_source(name, [&](std::span<const uint8_t> bytes) { add(bytes); });
}

uint64_t SourceHash::value() const {
  return hash_bytes({reinterpret_cast<const uint8_t*>(hashes_.data()), hashes_.size() * sizeof(uint64_t)});
}

Result<uint64_t> hash_shard_source(const CheckpointWeights& weights, const ModelPlan& plan, const ShardRange& shard) {
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
