// A checksum of what a shard is made from (compiler/source_hash.h).
#pragma once

#include <cstdint>

#include "backends/qnn/compile/shard_plan.h"
#include "tandem/status.h"
#include "weights/source_weights.h"

namespace tandem {

// Of all weights that a shard can have in it.
Result<uint64_t> hash_shard_source(const SourceWeights& weights, const ModelPlan& plan, const ShardRange& shard);

}  // namespace tandem
