// The results of `tandem eval`, for people and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "eval/phases.h"

namespace tandem {

// For --phase: one phase alone. If float is there too, for --kl, the last one.
std::string one_phase_text(const PhasesReport& report);
Json one_phase_json(const PhasesReport& report);

// For --phases: side by side. A ratio in dB that is infinite, because two phases are equal, is null in JSON.
std::string phases_text(const PhasesReport& report);
Json phases_json(const PhasesReport& report);

// Which data the figures are of, and which data calibrated the file.
std::string data_text(const EvaluationData& data, const std::string& calibration);
void add_data(const EvaluationData& data, const std::string& calibration, Json& json);

}  // namespace tandem
