// The verifier's checks of OpKind::kRescore.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

// The op's signature has been checked, and so has each tensor by itself.
Status verify_rescore(const Graph& graph, const Op& op);

}  // namespace tandem::ir
