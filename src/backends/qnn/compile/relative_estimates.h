// Estimates for a target that the vendor's library does not simulate: its shards are compiled once more for a relative
// that it does, and only the simulation's results are kept.
#pragma once

#include <functional>
#include <vector>

#include "backends/qnn/compile/npu_targets.h"
#include "backends/qnn/compile/shard_processes.h"
#include "compiler/work_folder.h"

namespace tandem {

using TaskDone = std::function<Status(size_t task, const ShardResult& result)>;
using TaskRunner = std::function<Status(const std::vector<WorkerTask>& tasks, const TaskDone& done)>;

// Whether every graph of a shard has one.
bool has_estimates(const ShardResult& result);

// The same task for another chip, only for its estimate.
WorkerTask on_relative(WorkerTask task, const NpuTarget& relative, int vtcm_mb);

struct RelativeEstimates {
  std::vector<ShardResult> results;  // Of the shards.
  size_t reused = 0;                 // Finished by an earlier run.
};
// `shards` are the tasks that compiled the shards themselves. Finished ones are recorded in `work`, so that a stopped
// compile resumes after them.
Result<RelativeEstimates> estimate_on_relative(const NpuTarget& relative, int vtcm_mb,
                                               const std::vector<WorkerTask>& shards, WorkFolder& work,
                                               const TaskRunner& run);

}  // namespace tandem
