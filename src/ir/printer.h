// The graph as text, one op per line, as `--dump-ir` shows it.
#pragma once

#include <string>

#include "ir/graph.h"

namespace tandem::ir {

std::string to_text(const Graph& graph);

}  // namespace tandem::ir
