// The tokens that calibration looks at: a text, conversations, one prompt, or a short text of our own.
#pragma once

#include <vector>

#include "compiler/compile_job.h"

namespace tandem {

Result<std::vector<std::vector<int32_t>>> read_calibration_samples(const CompileJob& job);

// The first of these options that was given and that calibration reads; "" if none was.
std::string_view calibration_flag_of(const CalibrationOptions& options);
// Refuses a text from two places, and any text where nothing is calibrated.
Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated);

// What the encodings depend on, of these options: the contents of files too.
Result<std::string> calibration_key(const CalibrationOptions& options);

}  // namespace tandem
