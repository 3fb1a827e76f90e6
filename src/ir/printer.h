// The graph as text, one op a line: what `--dump-ir` shows.
#pragma once

#include <string>

#include "ir/graph.h"

namespace tandem::ir {

std::string to_text(const Graph& graph);

}  // namespace tandem::ir
