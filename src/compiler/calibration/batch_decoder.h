// Decodes several sequences at once with the float model: every weight is read once per step for all of them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "base/thread_pool.h"
#include "models/model_plan.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

class BatchDecoder {
 public:
  struct Options {
    int64_t sequences = 1;
    int64_t length = 0;  // Tokens that each sequence gets at most.
  };
  // The plan, the weights and the pool must outlive it.
  static Result<std::unique_ptr<BatchDecoder>> create(const ModelPlan& plan, const WeightProvider& weights,
                                                      const Options& options, ThreadPool& pool);

  // Feeds the next token of each sequence, and returns the logits after it, [sequences, vocabulary], until the next
  // call. A sequence uses the rotary table of its whole length, as in a single pass over it.
  Result<std::span<const float>> step(std::span<const int32_t> tokens);

  // Bytes of keys and values of one sequence.
  static uint64_t cache_bytes(const ModelPlan& plan, int64_t length);

 private:
  BatchDecoder(const ModelPlan& plan, const Options& options) : plan_(plan), options_(options) {}
  Status allocate();

  const ModelPlan& plan_;
  Options options_;
  std::unique_ptr<Program> program_;
  std::unique_ptr<ExecutionContext> context_;
  ir::MethodInputs inputs_;
  ir::TensorId logits_ = -1;
  Bindings bindings_;
  std::vector<std::shared_ptr<uint8_t>> memory_;
  int64_t position_ = 0;
};

}  // namespace tandem
