// A plan as text: its steps in order, and the buffer of every tensor. For tests and debugging.
#pragma once

#include <string>

#include "backends/cpu/execute/plan.h"

namespace tandem::cpu {

// One step a line, then one line for each tensor that has a buffer of the plan's own:
//
//   rows: embedding(x), rms_norm(h), quantize for layers.0.q
//   linear: linear(q)
//   linear, tail, adds %x: linear(out), add(y)
//   buffers: x arena+0, h local+0, q arena+64
//   lm head: step 3
std::string to_text(const MethodPlan& plan);

}  // namespace tandem::cpu
