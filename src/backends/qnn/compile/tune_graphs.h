// The autotuner: compiles one layer in many variants and selects the fastest by the vendor's estimates.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "backends/qnn/compile/graph_variant.h"
#include "backends/qnn/compile/relative_estimates.h"
#include "tandem/status.h"

namespace tandem {

// A variant must be faster than the default by this share to be selected: the estimates are no more accurate.
inline constexpr double kTuningMargin = 0.03;

struct TunedGraphs {
  GraphVariant variant;
  size_t compiled = 0;  // Variants that were compiled for it.
};

// `layer` compiles one layer in the usual variant (layer.job.methods.variant) for a chip that has estimates. Forms of
// attention are selected per method, the size of transfers and the folding of the mask for all methods together.
Result<TunedGraphs> tune_graphs(const WorkerTask& layer, const TaskRunner& run);

// What the result depends on: the layer's graphs, their formats, the chip, the library.
Result<std::string> tuning_key(const ModelPlan& plan, const Recipe& recipe, const ShardJob& layer,
                               const std::string& library);

// Earlier results of tuning, one small file for each model shape and target.
class TuningCache {
 public:
  // An empty folder: the user's own (XDG_CACHE_HOME, or .cache in HOME); without one, nothing is kept.
  explicit TuningCache(std::filesystem::path folder);

  // Nothing if it does not exist, is no such file, or was made for another key.
  std::optional<GraphVariant> find(const std::string& key) const;
  Status add(const std::string& key, const GraphVariant& variant) const;

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
};

// The part that compiling a file needs.
struct TuningRequest {
  const WorkerTask& layer;
  const std::string& key;
  uint64_t source = 0;  // Of the checkpoint.
  std::filesystem::path cache;
};
// From an earlier run's work, whose shards use it; from the cache; or by tuning.
Result<GraphVariant> tuned_variant(const TuningRequest& request, WorkFolder& work, const TaskRunner& run,
                                   CompileReport& report);

}  // namespace tandem
