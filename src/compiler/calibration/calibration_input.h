// The calibration samples: a text, conversations, one prompt, or a built-in short text.
#pragma once

#include <vector>

#include "compiler/compile_job.h"

namespace tandem {

Result<std::vector<std::vector<int32_t>>> read_calibration_samples(const CompileJob& job);

// The first option given that chooses calibration data, or that concerns static encodings, as messages name it; "" if
// none was given.
std::string_view calibration_text_field_of(const CalibrationOptions& options);
std::string_view encodings_field_of(const CalibrationOptions& options);
// Refuses two sources of text, and all of these options where nothing is calibrated.
Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated);

// The part of these options that the encodings depend on, including the contents of files.
Result<std::string> calibration_key(const CalibrationOptions& options);

}  // namespace tandem
