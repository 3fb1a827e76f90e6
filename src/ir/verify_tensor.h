// The checks of a single tensor; verifier.cpp has those of ops.
#pragma once

#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::ir {

// Far above any model, far below where the product of two of them overflows.
inline constexpr int64_t kMaxDim = int64_t{1} << 31;

Status verify_tensor(const Tensor& tensor);

}  // namespace tandem::ir
