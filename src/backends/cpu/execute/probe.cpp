#include "backends/interface/probe.h"

#include <algorithm>

#include "backends/cpu/execute/plan.h"
#include "backends/cpu/execute/program.h"
#include "base/checked.h"
#include "base/error.h"

namespace tandem::cpu {

Result<BackendProbe> probe_program(const Artifact* artifact) {
  BackendProbe probe;
  const auto kernels = choose_kernels();
  if (!kernels.ok()) {
    set_obstacle(probe, kernels.error(), "unset TANDEM_ISA");
    return probe;
  }
  probe.usable = true;
  probe.device = (*kernels)->isa;
  if (artifact == nullptr) return probe;
  const ArtifactHeader& header = artifact->header();
  uint64_t arena_bytes = 0, scratch_bytes = 0;
  for (const ir::Graph& graph : header.methods) {
    const auto plan = make_plan(graph, *artifact, **kernels);
    if (!plan.ok()) {
      if (plan.error().code == ErrorCode::kCorrupt) return plan.error();
      set_obstacle(probe, plan.error(), "compile the model again with this version of tandem");
      return probe;
    }
    arena_bytes = std::max(arena_bytes, plan->arena_bytes);
    scratch_bytes = std::max(scratch_bytes, plan->scratch);
  }
  // The scratch of one thread: how many an engine would start is not known here.
  const uint64_t activations = checked_add(arena_bytes, scratch_bytes).value_or(UINT64_MAX);
  set_memory(probe, stored_weight_bytes(header),
             checked_add(activations, session_bytes(header.methods)).value_or(UINT64_MAX), available_memory());
  check_mapped_memory(probe);
  return probe;
}

}  // namespace tandem::cpu
