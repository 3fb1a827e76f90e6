// Estimates for a target that the vendor's library does not simulate: its shards are compiled once more for a relative
// that it does, and nothing is kept of that but what the simulation says.
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

// The same task for another chip, for its estimate alone.
WorkerTask on_relative(WorkerTask task, const NpuTarget& relative, int vtcm_mb);

struct RelativeEstimates {
  std::vector<ShardResult> results;  // Of the shards.
  size_t reused = 0;                 // That an earlier run had finished.
};
// `shards` are the tasks that the shards themselves were compiled by. What is finished is noted in `work`, so that a
// compile that was stopped goes on behind it.
Result<RelativeEstimates> estimate_on_relative(const NpuTarget& relative, int vtcm_mb,
                                               const std::vector<WorkerTask>& shards, WorkFolder& work,
                                               const TaskRunner& run);

}  // namespace tandem
