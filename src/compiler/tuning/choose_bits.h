// Formats of the layers' weights within a budget of bits (CompileOptions::bits).
#pragma once

#include "base/progress.h"
#include "base/thread_pool.h"
#include "models/model_plan.h"
#include "quant/recipe.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

struct BitsJob {
  const ModelPlan& plan;
  const WeightProvider& weights;  // Floats.
  const Recipe& recipe;           // Its rules are kept: what they give a format has it.
  double bits = 0.0;              // Per weight of the layers' matrices, on average; row scales are not counted.
  bool whole_blocks = false;      // Blocks must divide a row (NPUs).
  std::span<const std::vector<int32_t>> samples;
  ProgressCallback progress = {};
  StopCallback stop = {};
};

struct BitsChoice {
  Recipe recipe;  // With a rule for each weight whose format differs from the recipe's.
  double bits = 0.0;
  struct Weight {
    std::string name;
    WeightSpec spec;
    double kl = 0.0;  // Predicted divergence that rounding it adds, in nats per token.
  };
  std::vector<Weight> weights;
};

// Measures how much each weight's rounding costs (sensitivity.h), predicts the formats that it could have by the error
// of the weights in each, and takes those that are best for the budget (bit_budget.h).
Result<BitsChoice> choose_bits(const BitsJob& job, ThreadPool& pool);

}  // namespace tandem
