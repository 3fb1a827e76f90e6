// A checkpoint with its original weights and with those that a recipe leaves.
#pragma once

#include <memory>
#include <optional>

#include "base/try.h"
#include "weights/cached_weights.h"
#include "weights/checkpoint_weights.h"
#include "weights/fake_quant_weights.h"
#include "weights/transform_rules.h"
#include "weights/transformed_weights.h"

namespace tandem {

// The parts point at each other, so it is not movable.
class FakeQuantCheckpoint {
 public:
  static Result<std::unique_ptr<FakeQuantCheckpoint>> create(Checkpoint checkpoint, const Recipe& recipe) {
    TANDEM_ASSIGN(ModelPlan plan, plan_model(checkpoint));
    std::unique_ptr<FakeQuantCheckpoint> made(new FakeQuantCheckpoint(std::move(checkpoint), std::move(plan), recipe));
    TANDEM_TRY(made->transform());
    return made;
  }
  FakeQuantCheckpoint(const FakeQuantCheckpoint&) = delete;
  FakeQuantCheckpoint& operator=(const FakeQuantCheckpoint&) = delete;

  const Checkpoint& checkpoint() const { return checkpoint_; }
  const ModelPlan& plan() const { return plan_; }
  const Recipe& recipe() const { return recipe_; }
  const WeightProvider& float_weights() const { return floats_; }
  const WeightProvider& weights() const { return *cached_; }

 private:
  FakeQuantCheckpoint(Checkpoint checkpoint, ModelPlan plan, const Recipe& recipe)
      : checkpoint_(std::move(checkpoint)), plan_(std::move(plan)), recipe_(recipe), floats_(checkpoint_, plan_) {}

  Status transform() {
    TANDEM_ASSIGN(transformed_, TransformedWeights::create(checkpoint_, plan_, recipe_.transforms));
    std::vector<std::string> ignored;  // Said when the model is compiled.
    recipe_.transforms = applicable_transforms(plan_, recipe_.transforms, ignored);
    rounded_.emplace(*transformed_, recipe_, [this](std::string_view name) { return plan_.find_weight(name)->cols; });
    cached_.emplace(*rounded_, shapes(plan_));
    return ok_status();
  }

  static std::vector<WeightShape> shapes(const ModelPlan& plan) {
    std::vector<WeightShape> shapes;
    for (const WeightSource& weight : plan.weights) shapes.push_back({weight.name, weight.rows, weight.cols});
    return shapes;
  }

  Checkpoint checkpoint_;
  ModelPlan plan_;
  Recipe recipe_;
  CheckpointWeights floats_;
  std::unique_ptr<TransformedWeights> transformed_;
  std::optional<FakeQuantWeights> rounded_;
  std::optional<CachedWeights> cached_;
};

}  // namespace tandem
