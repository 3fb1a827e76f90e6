// A checkpoint's logits by the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "reference/interpreter.h"
#include "weights/checkpoint_weights.h"

namespace tandem::test {

// Logits of all positions, in one call of a graph of that many tokens.
inline std::vector<float> reference_logits(const ModelPlan& plan, const WeightProvider& weights,
                                           const std::vector<int32_t>& tokens) {
  const auto n = static_cast<int64_t>(tokens.size());
  ir::Graph graph = build_graph(plan, {"prefill", n, n});
  const Status verified = ir::verify(graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  ThreadPool pool(2);
  auto program = make_reference_program({graph}, weights, pool);
  auto memory = MethodMemory::allocate(*program);
  auto context = program->new_context();
  const auto inputs = ir::MethodInputs::read(graph);
  EXPECT_TRUE(inputs.ok()) << inputs.error().message;
  ir::fill_inputs(graph, *inputs, {tokens, 0, n > inputs->rope_limit}, memory->bindings(0));
  memory->bindings(0).rows = n;
  const Status ran = (*context)->run(0, memory->bindings(0));
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  const auto* logits = static_cast<float*>(memory->find(*program, 0, "logits"));
  return {logits, logits + n * plan.vocab_size};
}

// The same with a checkpoint's own weights.
inline std::vector<float> reference_logits(const Checkpoint& checkpoint, const std::vector<int32_t>& tokens) {
  auto plan = plan_model(checkpoint);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  if (!plan.ok()) return {};
  return reference_logits(*plan, CheckpointWeights(checkpoint, *plan), tokens);
}

}  // namespace tandem::test
