// Which linear layers of a CPU's file get int16 activations, where a recipe leaves that open ("auto").
//
// A few channels of a large model's activations are many times larger than the others. One scale per token then leaves
// the others few of int8's 255 values, although they carry most of a layer's result. The SQNR of the activation itself
// does not show it, since the large channels make that look good; so the criterion here is the layer's output: its mean
// square over some text, divided by the mean square of the error that rounding its input adds to it.
#pragma once

#include <string>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "quant/recipe.h"
#include "weights/source_weights.h"

namespace tandem {

// Layers whose output SQNR with int8 is below this get int16. docs/quantization.md has the measurements behind it.
inline constexpr double kLeastOutputSqnrDb = 30.0;

// Whether the recipe leaves the activations of any layer of the model open.
bool leaves_activations_open(const Recipe& recipe, const ModelPlan& plan);

struct ActivationJob {
  const ModelPlan& plan;
  const SourceWeights& weights;
  const Recipe& recipe;
  std::vector<std::vector<int32_t>> samples;
  ProgressCallback progress;
  StopCallback stop;
};

struct ActivationChoice {
  Recipe recipe;  // With nothing left open: rules name the layers with int16 activations.
  struct Layer {
    std::string name;
    double sqnr_db = 0.0;  // Of the output, with int8; infinity if nothing is lost.
  };
  std::vector<Layer> layers;  // Those that were open, in the order they run.
};
Result<ActivationChoice> choose_activations(const ActivationJob& job, ThreadPool& pool);

}  // namespace tandem
