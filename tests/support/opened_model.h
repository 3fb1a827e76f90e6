// A checkpoint that is open, with its plan and its float weights.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "models/model_plan.h"
#include "weights/checkpoint_weights.h"

namespace tandem::test {

// A checkpoint, its plan and its weights.
class OpenedModel {
 public:
  explicit OpenedModel(const std::filesystem::path& folder) {
    auto checkpoint = Checkpoint::open(folder);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    checkpoint_.emplace(*std::move(checkpoint));
    auto plan = plan_model(*checkpoint_);
    EXPECT_TRUE(plan.ok()) << plan.error().message;
    plan_ = *std::move(plan);
    weights_.emplace(*checkpoint_, plan_);
  }
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;

  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const ModelPlan& plan() const { return plan_; }
  const CheckpointWeights& weights() const { return *weights_; }

 private:
  std::optional<Checkpoint> checkpoint_;
  ModelPlan plan_;
  std::optional<CheckpointWeights> weights_;
};

}  // namespace tandem::test
