// Checks a graph: every op has the inputs, shapes and dtypes it needs, everything is written before it is read, sizes
// are sane. A back end may trust a verified graph without further checks, even one read from a file.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

// The error names the op (its index and kind) and the tensor.
Status verify(const Graph& graph);

}  // namespace tandem::ir
