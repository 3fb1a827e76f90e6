// What of the graph language a CPU runs.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::cpu {

// Kernels compute in floats, with a row for each token. The graph language also knows integers and heads that stand
// apart, for other back ends; a file that asks a CPU for them is refused.
Status check_ops(const ir::Graph& graph);

}  // namespace tandem::cpu
