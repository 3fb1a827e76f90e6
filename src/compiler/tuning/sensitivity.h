// How much a model's predictions suffer from rounding one weight: the mean KL divergence of the next token's
// distribution from the float model's, when that weight alone is quantized.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "models/model_plan.h"
#include "quant/quantize.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

struct SensitivityJob {
  const ModelPlan& plan;
  const WeightProvider& weights;  // Floats.
  std::span<const std::vector<int32_t>> samples;
  WeightSpec spec = {};            // In which each weight is rounded, without data.
  std::vector<std::string> names;  // The weights; of layers.
  ProgressCallback progress = {};
  StopCallback stop = {};
};

// For each of the names. The samples are cut to what fits a fixed amount of arithmetic; the result does not depend on
// the machine's speed or the number of threads.
Result<std::vector<double>> measure_sensitivity(const SensitivityJob& job, ThreadPool& pool);

}  // namespace tandem
