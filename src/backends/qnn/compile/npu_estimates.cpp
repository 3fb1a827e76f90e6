#include "backends/qnn/compile/npu_estimates.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

// What an int8 LM head of 151,936 x 1024 reads per microsecond where it is simulated (158 MB: nothing but streaming).
// The simulator has no V69, V75 and V79.
struct ArchRate {
  int arch;
  double bytes_per_us;
};
constexpr ArchRate kMeasuredRates[] = {{68, 44.6e3}, {73, 45.6e3}, {81, 67.7e3}};

void add(Estimate& sum, const Estimate& part) {
  for (const auto& [name, member] : kEstimateFields) sum.*member += part.*member;
  sum.uncosted_ops.insert(sum.uncosted_ops.end(), part.uncosted_ops.begin(), part.uncosted_ops.end());
}

Status add_shard(MethodEstimate& method, const std::string& graph, const ShardRange& shard, const ShardResult& result) {
  const auto found = std::ranges::find(result.graphs, graph, &ShardResult::GraphResult::name);
  if (found == result.graphs.end() || !found->estimate) {
    return internal_error("QNN's library gave no estimate of the graph {}; leave `estimate` out", graph);
  }
  add(method.total, *found->estimate);
  method.shards.push_back({shard.name, *found->estimate});
  return ok_status();
}

}  // namespace

double measured_streaming_rate(int arch) {
  const auto found = std::ranges::find(kMeasuredRates, arch, &ArchRate::arch);
  return found == std::end(kMeasuredRates) ? 0.0 : found->bytes_per_us;
}

Result<EstimateReport> make_estimate_report(const NpuTarget& target, const NpuTarget& simulated, int vtcm_mb,
                                            std::span<const MethodShape> shapes, std::span<const ShardRange> shards,
                                            std::span<const ShardResult> results) {
  EstimateReport report;
  report.target = target.name;
  report.target_arch = target.arch;
  report.simulated = simulated.name;
  report.soc_model = simulated.soc_model;
  report.arch = simulated.arch;
  report.vtcm_mb = vtcm_mb;
  report.arch_bytes_per_us = measured_streaming_rate(simulated.arch);
  report.lm_head.name = "head";
  for (const MethodShape& shape : shapes) {
    report.context = shape.context;
    MethodEstimate method;
    method.name = shape.name;
    method.tokens = shape.tokens;
    for (size_t i = 0; i < shards.size(); ++i) {
      if (shards[i].has_layers()) {
        TANDEM_TRY(add_shard(method, shape.name + "." + shards[i].name, shards[i], results[i]));
      }
    }
    report.methods.push_back(std::move(method));
  }
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i].head) TANDEM_TRY(add_shard(report.lm_head, "head", shards[i], results[i]));
  }
  return report;
}

}  // namespace tandem
