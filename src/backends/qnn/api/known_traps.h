// Forms of ops that the library accepts but miscomputes or cannot compile. They are refused here, so that no lowering
// can emit them. Measured on 2.51 (docs/ has the list); each has a test.
#pragma once

#include <span>

#include "backends/qnn/api/abi.h"
#include "tandem/status.h"

namespace tandem::qnn {

struct NodeSpec;

Status check_known_traps(const NodeSpec& node, std::span<const abi::Tensor> inputs,
                         std::span<const abi::Tensor> outputs, int arch, const abi::Version& htp);

}  // namespace tandem::qnn
