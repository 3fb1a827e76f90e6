// Runs workers, one per shard, as many at a time as memory allows, and watches them.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "backends/qnn/compile/npu_options.h"
#include "backends/qnn/compile/shard_job.h"
#include "base/log.h"
#include "base/progress.h"
#include "compiler/compile.h"
#include "tandem/status.h"

namespace tandem {

struct WorkerTask {
  ShardJob job;
  uint64_t expected_memory = 0;  // Bytes that its process will take.
  std::string label = {};        // Its name in progress and errors; empty: the shard's.

  const std::string& name() const { return label.empty() ? job.shard.name : label; }
};

struct WorkerOptions {
  std::filesystem::path worker;  // The program.
  std::filesystem::path folder;  // For jobs, results and logs.
  int jobs = 1;                  // Processes at a time.
  uint64_t memory = 0;           // Bytes that all processes together may take. One is always started.
  StopCallback stop;
  std::function<void(const std::string& shard, const std::string& stage)> progress;
  Log log = {};
};

// Calls `done` for each finished task, in the order they end; its error ends the rest. After the first failure no other
// task is started, but running ones are waited for, so that their work is not lost. A stop ends all processes at once.
Status run_workers(const std::vector<WorkerTask>& tasks, const WorkerOptions& options,
                   const std::function<Status(size_t task, const ShardResult& result)>& done);

// The same, starting with the tasks that take the most memory and so the most time, so that none runs alone at the end.
Status run_longest_first(const std::vector<WorkerTask>& tasks, const WorkerOptions& options,
                         const std::function<Status(size_t task, const ShardResult& result)>& done);

// The same with as many workers and threads as the options and this machine allow.
Status run_tasks(std::vector<WorkerTask> tasks, const NpuOptions& npu, const CompileOptions& compile,
                 WorkerOptions options, const std::function<Status(size_t task, const ShardResult& result)>& done);

// The given worker, or the one next to the running program; an error says how to get it.
Result<std::filesystem::path> find_worker(const std::filesystem::path& given);

}  // namespace tandem
