// One caller's state: its memory between shards, and its bindings to the library's graphs.
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "backends/interface/program.h"
#include "backends/qnn/api/execution.h"
#include "backends/qnn/execute/loaded_shards.h"
#include "tandem/status.h"

namespace tandem::qnn {

class QnnExecutionContext final : public ExecutionContext {
 public:
  static Result<std::unique_ptr<ExecutionContext>> create(std::shared_ptr<const LoadedShards> loaded);

  Status run(size_t method, const Bindings& bindings) override;

 private:
  // A step with its library objects.
  struct BoundStep {
    explicit BoundStep(Execution made) : execution(std::move(made)) {}
    Execution execution;
    std::vector<const uint8_t*> inputs;  // What was set last.
    std::vector<const uint8_t*> outputs;
  };

  struct RescoreScratch {
    std::vector<float> x;
    RescoreInput input;
    std::vector<uint64_t> search;
    std::vector<int32_t> candidates;
  };

  explicit QnnExecutionContext(std::shared_ptr<const LoadedShards> loaded) : loaded_(std::move(loaded)) {}
  Status check(const MethodPlan& plan, const Bindings& bindings) const;
  void copy_positions(const MethodPlan& plan, const Bindings& bindings);
  void look_up(const LoadedMethod& method, const Bindings& bindings);
  void rescore(const LoadedMethod& method, const Bindings& bindings);
  Status run_step(const Step& step, BoundStep& bound, const Bindings& bindings);
  Status bind(const Step& step, BoundStep& bound, const Bindings& bindings);
  std::shared_ptr<const SharedTensor> share(const std::shared_ptr<const Context>& context, const TensorInfo& info,
                                            const uint8_t* data);
  uint8_t* address_of(const Port& port, const Bindings& bindings) const {
    return port.in_arena ? arena_.get() + port.offset
                         : static_cast<uint8_t*>(bindings.data[static_cast<size_t>(port.tensor)]);
  }

  std::shared_ptr<const LoadedShards> loaded_;
  std::shared_ptr<uint8_t> arena_;               // One for all methods: one runs at a time.
  std::vector<float> rows_;                      // For each thread, a row of the widest table.
  std::vector<RescoreScratch> rescore_scratch_;  // For each thread; empty where nothing is rescored.
  size_t row_width_ = 0;
  std::vector<std::vector<BoundStep>> steps_;  // By method.
  // Memory registered with the library, so that methods that use the same memory register it once.
  using SharedKey = std::tuple<const Context*, const uint8_t*, DataType, std::vector<uint32_t>>;
  std::map<SharedKey, std::weak_ptr<const SharedTensor>> shared_;
  bool sharing_refused_ = false;
};

}  // namespace tandem::qnn
