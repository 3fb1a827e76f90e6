// The calibration samples: a text, conversations, a task's file, one prompt, or what the model itself writes.
#pragma once

#include <optional>
#include <vector>

#include "base/thread_pool.h"
#include "compiler/calibration/calibration_data.h"
#include "compiler/calibration/self_samples.h"
#include "compiler/compile_job.h"

namespace tandem {

Result<CalibrationData> read_calibration_samples(const CompileJob& job, ThreadPool& pool,
                                                 const CalibrationNeeds& needs = {});

// What a pass over so many tokens costs stays below 6 TFLOP, about a minute on two cores; 2048 at least, 40960 at most.
int64_t affordable_tokens(const ModelPlan& plan);

// If there are fewer tokens than the widest linear layer has inputs: what is seen of some inputs is then no more than
// chance.
std::optional<std::string> warning_about_few_tokens(const CalibrationData& data, const ModelPlan& plan);

// The first option given that chooses calibration data, or that concerns static encodings, as messages name it; "" if
// none was given.
std::string_view calibration_text_field_of(const CalibrationOptions& options);
std::string_view encodings_field_of(const CalibrationOptions& options);
// Refuses contradictions, and all of these options where nothing is calibrated. If `tunes_weights`, a text is read for
// that in any case.
Status check_calibration(const CalibrationOptions& options, const Recipe& recipe, bool is_calibrated,
                         bool tunes_weights = false);

// The part of these options that the encodings depend on, including the contents of files.
Result<std::string> calibration_key(const CalibrationOptions& options);

}  // namespace tandem
