// Rotary frequencies by config.json's scaling rules.
#pragma once

#include "checkpoint/hub/model_config.h"
#include "models/model_plan.h"
#include "tandem/status.h"

namespace tandem {

// `rotary_dim` entries of each head are rotated (even, at least 2). `max_positions` is what the model was trained for.
Result<RopeTable> make_rope_table(const RopeConfig& rope, int64_t rotary_dim, int64_t max_positions);

}  // namespace tandem
