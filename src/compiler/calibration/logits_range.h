// The range of a model's logits, for methods that output them as integers.
#pragma once

#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "models/model_plan.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

// Runs the float reference over `tokens` and returns an encoding for the observed range with a margin of a quarter of
// it on both sides, because a short sample does not reach the extremes. Logits beyond saturate.
Result<ir::Encoding> find_logits_encoding(const ModelPlan& plan, const WeightProvider& weights,
                                          const std::vector<int32_t>& tokens, DType dtype, ThreadPool& pool);

}  // namespace tandem
