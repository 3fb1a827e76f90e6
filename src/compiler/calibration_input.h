// The tokens that calibration looks at: a text, conversations, one prompt, or a short text of our own.
#pragma once

#include <vector>

#include "compiler/compile_job.h"

namespace tandem {

Result<std::vector<std::vector<int32_t>>> read_calibration_samples(const CompileJob& job);

}  // namespace tandem
