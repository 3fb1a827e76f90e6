#include "backends/cpu/execute/program.h"

#include <algorithm>

#include "backends/cpu/execute/cache_rows.h"
#include "backends/cpu/execute/plan.h"
#include "backends/cpu/execute/step_runner.h"
#include "backends/interface/method_memory.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

class CpuContext final : public ExecutionContext {
 public:
  CpuContext(const Artifact& artifact, const std::vector<MethodPlan>& plans, const KernelTable& kernels,
             ThreadPool& pool, AlignedMemory arena, AlignedMemory scratch, uint64_t scratch_per_thread)
      : artifact_(artifact),
        plans_(plans),
        kernels_(kernels),
        pool_(pool),
        arena_(std::move(arena)),
        scratch_(std::move(scratch)),
        scratch_per_thread_(scratch_per_thread) {}

  Status run(size_t method, const Bindings& bindings) override {
    // Before, so that a truncated file is not touched; after, so that nothing computed from a changed one is used.
    TANDEM_TRY(artifact_.check());
    TANDEM_TRY(
        StepRunner(plans_[method], kernels_, pool_, bindings, arena_.get(), scratch_.get(), scratch_per_thread_).run());
    return artifact_.check();
  }

 private:
  const Artifact& artifact_;
  const std::vector<MethodPlan>& plans_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
  AlignedMemory arena_;  // One for all methods: a context runs one at a time.
  AlignedMemory scratch_;
  uint64_t scratch_per_thread_;
};

class CpuProgram final : public Program {
 public:
  CpuProgram(const Artifact& artifact, std::vector<MethodPlan> plans, const KernelTable& kernels, ThreadPool& pool)
      : artifact_(artifact), plans_(std::move(plans)), kernels_(kernels), pool_(pool) {}

  size_t method_count() const override { return plans_.size(); }
  const ir::Graph& method(size_t index) const override { return *plans_[index].graph; }

  bool computes_argmax(size_t method) const override { return plans_[method].lm_head_step >= 0; }

  void load_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row) const override {
    cpu::load_cache_row(cache, head, slot, row);
  }
  void store_cache_row(const CacheState& cache, int64_t head, int64_t slot, const float* row) const override {
    cpu::store_cache_row(kernels_, cache, head, slot, row);
  }

  Result<std::unique_ptr<ExecutionContext>> new_context() override {
    uint64_t arena_bytes = 0, scratch_bytes = 0;
    for (const MethodPlan& plan : plans_) {
      arena_bytes = std::max(arena_bytes, plan.arena_bytes);
      scratch_bytes = std::max(scratch_bytes, plan.scratch);
    }
    const uint64_t all_scratch = scratch_bytes * static_cast<uint64_t>(pool_.size());
    const bool fits = arena_bytes <= machine_memory() && all_scratch <= machine_memory();
    AlignedMemory arena = fits ? allocate_aligned(arena_bytes) : nullptr;
    AlignedMemory scratch = fits ? allocate_aligned(all_scratch) : nullptr;
    if (arena == nullptr || scratch == nullptr) {
      return resource_exhausted("no memory for {} bytes of activations", arena_bytes);
    }
    return std::unique_ptr<ExecutionContext>(std::make_unique<CpuContext>(
        artifact_, plans_, kernels_, pool_, std::move(arena), std::move(scratch), scratch_bytes));
  }

 private:
  const Artifact& artifact_;
  std::vector<MethodPlan> plans_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
};

}  // namespace

Result<std::unique_ptr<Program>> load_program(const Artifact& artifact, ThreadPool& pool) {
  TANDEM_ASSIGN(const KernelTable* kernels, choose_kernels());
  std::vector<MethodPlan> plans;
  for (const ir::Graph& graph : artifact.header().methods) {
    TANDEM_ASSIGN(MethodPlan plan, make_plan(graph, artifact, *kernels));
    plans.push_back(std::move(plan));
  }
  return std::unique_ptr<Program>(std::make_unique<CpuProgram>(artifact, std::move(plans), *kernels, pool));
}

}  // namespace tandem::cpu
