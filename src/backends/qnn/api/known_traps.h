// Ops that our lowerings emit and that the library accepts in forms that it computes wrongly or cannot compile. Refused
// here, so that no lowering can fall into them. Measured on 2.51 (docs/ has the list); each has a test.
#pragma once

#include <span>

#include "backends/qnn/api/abi.h"
#include "tandem/status.h"

namespace tandem::qnn {

struct NodeSpec;

Status check_known_traps(const NodeSpec& node, std::span<const abi::Tensor> inputs,
                         std::span<const abi::Tensor> outputs, int arch);

}  // namespace tandem::qnn
