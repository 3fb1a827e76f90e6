// The report of a compile's estimates, from the results of the shards' workers.
#pragma once

#include <span>

#include "backends/qnn/compile/npu_targets.h"
#include "backends/qnn/compile/shard_job.h"
#include "compiler/estimate_report.h"
#include "tandem/status.h"

namespace tandem {

// `shapes` by tokens, decode first; `results` are those of `shards`. A graph without an estimate is an error.
Result<EstimateReport> make_estimate_report(const NpuTarget& target, const NpuTarget& simulated, int vtcm_mb,
                                            std::span<const MethodShape> shapes, std::span<const ShardRange> shards,
                                            std::span<const ShardResult> results);

// The rate of streaming weights on an architecture in bytes per microsecond; 0 where it was not simulated.
double measured_streaming_rate(int arch);

}  // namespace tandem
