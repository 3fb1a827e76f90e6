// A checkpoint in the reference interpreter, in float or fake-quantized.
#pragma once

#include "eval/tested_model.h"

namespace tandem {

Result<std::unique_ptr<TestedModel>> open_checkpoint_model(const std::filesystem::path& folder,
                                                           const TestedModelOptions& options);

}  // namespace tandem
