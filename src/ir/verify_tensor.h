// The checks of one tensor on its own; verifier.cpp has those of ops.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

// Far above any model, far below where products of two of them overflow.
inline constexpr int64_t kMaxDim = int64_t{1} << 31;

Status verify_tensor(const Tensor& tensor);

}  // namespace tandem::ir
