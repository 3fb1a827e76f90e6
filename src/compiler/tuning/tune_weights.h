// Chooses quantized weights by what they do to a model's activations: error feedback (quant/error_feedback.h), one
// linear layer after the other, on the inputs that it will see in the quantized model.
//
// Two models run over the calibration samples side by side, layer by layer: the float one, and the one whose earlier
// layers are quantized already. Where their inputs x and x' of a layer differ, the layer's weights are first corrected
// so that they fit x' (as in GPTAQ, Li et al. 2025, and Qronos, Zhang et al. 2025); those that write to the residual
// stream make up for its difference too. Memory: the activations between two linear layers, and one layer's moments.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "compiler/tuning/tuned_weight.h"
#include "models/model_plan.h"
#include "quant/error_feedback.h"
#include "quant/recipe.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

// The activations of both models between two layers: what a stopped tuning goes on from.
struct TuneState {
  int64_t next_layer = 0;
  std::vector<std::vector<float>> rows;  // For each run of sequences: the float model's, then the quantized one's.
};

struct TuneJob {
  const ModelPlan& plan;
  const WeightProvider& weights;  // Floats.
  const Recipe& recipe;
  std::span<const std::vector<int32_t>> samples;
  FeedbackOptions feedback;
  bool correct_targets = true;
  // Called with all matrices of a layer that were tuned, and the state after it.
  std::function<Status(int64_t layer, std::vector<std::pair<TunedWeight, WeightMatrix>>)> on_layer = {};
  std::function<Status(const TuneState&)> save_state = {};  // May be empty.
  std::optional<TuneState> resume = {};
  ProgressCallback progress = {};
  StopCallback stop = {};
};

// Linear layers of the decoder's layers whose format is int8 or lpbq4 are tuned; the rest is left to the recipe.
Status tune_weights(TuneJob job, ThreadPool& pool);

}  // namespace tandem
