// The part of the IR that a CPU runs.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::cpu {

// Kernels compute in floats, with a row for each token. The IR also has integer activations and split heads, for other
// back ends; a file that needs them is refused.
Status check_ops(const ir::Graph& graph);

}  // namespace tandem::cpu
