// The autotuner: one layer is compiled in many variants, and the fastest by the vendor's estimates is taken.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backends/qnn/compile/graph_variant.h"
#include "backends/qnn/compile/relative_estimates.h"
#include "tandem/status.h"

namespace tandem {

// A variant must be so much faster than the usual one to be taken: the estimates themselves are not more exact.
inline constexpr double kTuningMargin = 0.03;

struct TunedGraphs {
  GraphVariant variant;
  size_t compiled = 0;  // Variants that were compiled for it.
};

// `layer` compiles one layer in the usual variant (layer.job.methods.variant) for a chip that has estimates. Forms of
// attention are chosen method by method, the size of transfers and the mask's place for all of them together.
Result<TunedGraphs> tune_graphs(const WorkerTask& layer, const TaskRunner& run);

// What the outcome depends on: the layer's graphs, their formats, the chip, the library.
Result<std::string> tuning_key(const ModelPlan& plan, const Recipe& recipe, const ShardJob& layer,
                               const std::string& library);

// What tuning has found before, one small file for each model's shape and target.
class TuningCache {
 public:
  // An empty folder: the user's own (XDG_CACHE_HOME, or .cache in HOME), or nothing is kept where there is none.
  explicit TuningCache(std::filesystem::path folder);

  // Nothing if it is not there, or is no such file, or was made for another key.
  std::optional<GraphVariant> find(const std::string& key) const;
  Status add(const std::string& key, const GraphVariant& variant) const;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

// What the compile of a file needs of all this.
struct TuningRequest {
  const WorkerTask& layer;
  const std::string& key;
  uint64_t source = 0;  // Of the checkpoint.
  std::filesystem::path cache;
};
// From the work of an earlier run, whose shards have it; from the cache; or by tuning.
Result<GraphVariant> tuned_variant(const TuningRequest& request, WorkFolder& work, const TaskRunner& run,
                                   CompileReport& report);

}  // namespace tandem
