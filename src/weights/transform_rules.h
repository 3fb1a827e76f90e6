// Which of a recipe's transforms a model's family allows.
#pragma once

#include <string>
#include <vector>

#include "models/model_plan.h"
#include "quant/transforms.h"

namespace tandem {

// The transforms without those that would change what the model computes, which get a note for the user each. What one
// transform implies is set: r1 and equalized norms need folded ones.
Transforms applicable_transforms(const ModelPlan& plan, const Transforms& transforms, std::vector<std::string>& notes);

}  // namespace tandem
