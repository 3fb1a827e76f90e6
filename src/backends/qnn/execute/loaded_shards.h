// What all execution contexts of a program share: the device, the contexts of the library, the graphs in them, and the
// plans. Immutable.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "artifact/reader.h"
#include "backends/qnn/api/graph.h"
#include "backends/qnn/api/log.h"
#include "backends/qnn/api/power.h"
#include "backends/qnn/api/rpcmem.h"
#include "backends/qnn/execute/plan.h"
#include "backends/qnn/execute/platform.h"
#include "backends/qnn/execute/program.h"
#include "base/thread_pool.h"
#include "tandem/status.h"
#include "weight_layout/packed_matrix.h"
#include "weight_layout/row_table.h"

namespace tandem::qnn {

struct LoadedShard {
  std::shared_ptr<const Context> context;
  std::vector<std::shared_ptr<const Graph>> graphs;  // In the binary's order; null where no method uses it.
};

// In the mapped file.
using HostTable = std::variant<PackedMatrix, RowTable>;

struct LoadedMethod {
  MethodPlan plan;
  std::vector<HostTable> tables;          // Of plan.lookups.
  std::vector<RowTable> rescored_tables;  // Of plan.rescores.
};

struct LoadedShards {
  explicit LoadedShards(Log log_to) : log(std::move(log_to)) {}

  OpenLog log;  // Destroyed last: the library may log while the rest is destroyed.
  std::shared_ptr<const Device> device;
  std::unique_ptr<PowerVote> power;  // Null where the platform has none.
  std::shared_ptr<SharedHeap> heap;  // Null where the platform has none.
  std::vector<LoadedShard> shards;
  std::vector<LoadedMethod> methods;
  ThreadPool* pool = nullptr;
  const Artifact* artifact = nullptr;  // The file with the tables.
};

// The device of this process. Programs share one, as the library has one set of resources behind it.
Result<std::shared_ptr<const Device>> process_device(const std::shared_ptr<const Library>& library,
                                                     const DeviceInfo& compiled, const Platform& platform,
                                                     const QnnOptions& options);

// Verifies the binaries' checksums, reads their descriptions, plans the methods, and only then loads them, in the
// file's order, into `loaded` (whose device is set).
Status load_shards(const Artifact& artifact, ThreadPool& pool, LoadedShards& loaded);

}  // namespace tandem::qnn
