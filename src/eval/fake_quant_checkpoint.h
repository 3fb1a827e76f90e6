// A checkpoint with its original weights and with those that a recipe leaves.
#pragma once

#include <memory>

#include "base/try.h"
#include "weights/cached_weights.h"
#include "weights/checkpoint_weights.h"
#include "weights/fake_quant_weights.h"

namespace tandem {

// The parts point at each other, so it is not movable.
class FakeQuantCheckpoint {
 public:
  static Result<std::unique_ptr<FakeQuantCheckpoint>> create(Checkpoint checkpoint, const Recipe& recipe) {
    TANDEM_ASSIGN(ModelPlan plan, plan_model(checkpoint));
    return std::unique_ptr<FakeQuantCheckpoint>(
        new FakeQuantCheckpoint(std::move(checkpoint), std::move(plan), recipe));
  }
  FakeQuantCheckpoint(const FakeQuantCheckpoint&) = delete;
  FakeQuantCheckpoint& operator=(const FakeQuantCheckpoint&) = delete;

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelPlan& plan() const { return plan_; }
  const Recipe& recipe() const { return recipe_; }
  const WeightProvider& float_weights() const { return floats_; }
  const WeightProvider& weights() const { return cached_; }

 private:
  FakeQuantCheckpoint(Checkpoint checkpoint, ModelPlan plan, const Recipe& recipe)
      : checkpoint_(std::move(checkpoint)),
        plan_(std::move(plan)),
        recipe_(recipe),
        floats_(checkpoint_, plan_),
        rounded_(floats_, recipe_, [this](std::string_view name) { return plan_.find_weight(name)->cols; }),
        cached_(rounded_, shapes(plan_)) {}

  static std::vector<WeightShape> shapes(const ModelPlan& plan) {
    std::vector<WeightShape> shapes;
    for (const WeightSource& weight : plan.weights) shapes.push_back({weight.name, weight.rows, weight.cols});
    return shapes;
  }

  Checkpoint checkpoint_;
  ModelPlan plan_;
  Recipe recipe_;
  CheckpointWeights floats_;
  FakeQuantWeights rounded_;
  CachedWeights cached_;
};

}  // namespace tandem
