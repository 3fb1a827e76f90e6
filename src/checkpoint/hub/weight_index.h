// model.safetensors.index.json: which shard holds which tensor.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

// Tensor names to file names. A name that reaches outside the folder is refused, and so is a tensor that occurs twice;
// the metadata (total_size) is ignored.
Result<std::map<std::string, std::string>> parse_weight_map(std::string_view text, std::string_view what);

}  // namespace tandem
