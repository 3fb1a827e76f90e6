// Which layers go into which binary of an NPU's file, and the graphs that are cut out of the methods for them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "models/model_plan.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

struct ShardRange {
  std::string name;  // "layers.0-8", "layers.9-17+head", "head"
  int64_t layer_begin = 0;
  int64_t layer_end = 0;
  bool head = false;             // The final norm and the logits.
  uint64_t estimated_bytes = 0;  // Of its binary.

  bool has_layers() const { return layer_end > layer_begin; }
};

// What a shard is planned to be at most, if nobody says how many there shall be. Compiling takes about 10 times the
// binary in memory, and time that grows faster than size and layers do (docs/performance.md).
inline constexpr uint64_t kPreferredShardBytes = uint64_t{336} << 20;
inline constexpr int64_t kPreferredShardLayers = 12;

struct ShardOptions {
  int shards = 0;          // 0: as many as sizes ask for.
  size_t weight_sets = 1;  // More than one where methods do not share weights.
};
Result<std::vector<ShardRange>> plan_shards(const ModelPlan& plan, const Recipe& recipe, const ShardOptions& options);

// The part of a method that a shard's layers are: a graph of its own. What it reads or gives beyond itself becomes an
// input or an output, with the name it has in the method.
Result<ir::Graph> extract_layers(const ir::Graph& method, const ShardRange& shard);
// From the last layer's output to the logits.
Result<ir::Graph> extract_head(const ir::Graph& method);

// A graph that names what the CPU looks up: the embedding.
ir::Graph host_graph(const ModelPlan& plan, const Recipe& recipe);

}  // namespace tandem
