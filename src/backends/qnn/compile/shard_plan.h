// Assigns layers to the binaries of an NPU's file, and extracts their graphs from the methods.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/qnn/compile/npu_targets.h"
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

// The maximum of a planned shard, unless the user sets the number of shards. Compiling takes about 10 times the binary
// in memory, and time that grows faster than size and layers do (docs/performance.md).
inline constexpr uint64_t kPreferredShardBytes = uint64_t{336} << 20;
inline constexpr int64_t kPreferredShardLayers = 12;

struct ShardOptions {
  int shards = 0;          // 0: as many as the sizes require.
  size_t weight_sets = 1;  // More than one where methods do not share weights.
  // The most bytes of a binary, and of a graph in it, which has one set of weights.
  uint64_t largest = kNpuShardLimit;
  uint64_t largest_graph = kNpuGraphLimit;
};
Result<std::vector<ShardRange>> plan_shards(const ModelPlan& plan, const Recipe& recipe, const ShardOptions& options);

// A shard's layers of a method as a graph of their own. Values that cross its boundary become inputs and outputs, with
// their names in the method.
Result<ir::Graph> extract_layers(const ir::Graph& method, const ShardRange& shard);
// From the last layer's output to the logits.
Result<ir::Graph> extract_lm_head(const ir::Graph& method);

// A graph of the CPU's lookups: the embedding.
ir::Graph host_graph(const ModelPlan& plan, const Recipe& recipe);

}  // namespace tandem
