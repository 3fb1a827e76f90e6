// Where each weight and vector of a model comes from in its checkpoint.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/model_plan.h"
#include "tandem/status.h"

namespace tandem {

// Fills weights, vectors and parameters of a plan whose sizes and layers are resolved. The checkpoint must have every
// tensor in the right shape, and no unused ones.
Status collect_sources(const Checkpoint& checkpoint, ModelPlan& plan);

}  // namespace tandem
