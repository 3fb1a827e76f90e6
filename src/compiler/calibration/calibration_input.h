// The tokens that calibration looks at: a text, conversations, one prompt, or a short text of our own.
#pragma once

#include <vector>

#include "compiler/compile_job.h"

namespace tandem {

Result<std::vector<std::vector<int32_t>>> read_calibration_samples(const CompileJob& job);

// The first of the options given that say what to calibrate with, and of those that are about static encodings, as
// messages name them; "" if none was.
std::string_view calibration_text_field_of(const CalibrationOptions& options);
std::string_view encodings_field_of(const CalibrationOptions& options);
// Refuses a text from two places, and all of these options where nothing is calibrated.
Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated);

// What the encodings depend on, of these options: the contents of files too.
Result<std::string> calibration_key(const CalibrationOptions& options);

}  // namespace tandem
