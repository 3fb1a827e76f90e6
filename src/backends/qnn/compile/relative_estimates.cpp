#include "backends/qnn/compile/relative_estimates.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "base/try.h"

namespace tandem {

WorkerTask on_relative(WorkerTask task, const NpuTarget& relative, int vtcm_mb) {
  task.label = str_format("{} on {}", task.job.shard.name, relative.name);
  task.job.soc_model = relative.soc_model;
  task.job.arch = relative.arch;
  task.job.vtcm_mb = vtcm_mb;
  task.job.estimate = true;
  task.job.output.clear();
  return task;
}

bool has_estimates(const ShardResult& result) {
  return std::ranges::all_of(result.graphs, [](const auto& graph) { return graph.estimate.has_value(); });
}

Result<RelativeEstimates> estimate_on_relative(const NpuTarget& relative, int vtcm_mb,
                                               const std::vector<WorkerTask>& shards, WorkFolder& work,
                                               const TaskRunner& run) {
  RelativeEstimates estimates;
  estimates.results.resize(shards.size());
  std::vector<WorkerTask> tasks;
  std::vector<size_t> shard_of_task;
  for (size_t i = 0; i < shards.size(); ++i) {
    WorkerTask task = on_relative(shards[i], relative, vtcm_mb);
    if (const FinishedSegment* finished = work.find(task.label, task.job.source)) {
      if (auto result = ShardResult::from_json(finished->note); result.ok() && has_estimates(*result)) {
        estimates.results[i] = *std::move(result);
        ++estimates.reused;
        continue;
      }
    }
    shard_of_task.push_back(i);
    tasks.push_back(std::move(task));
  }
  TANDEM_TRY(run(tasks, [&](size_t task, const ShardResult& result) -> Status {
    const size_t shard = shard_of_task[task];
    estimates.results[shard] = result;
    return work.add(tasks[task].label, {0, 0, tasks[task].job.source, {}, result.to_json()});
  }));
  return estimates;
}

}  // namespace tandem
