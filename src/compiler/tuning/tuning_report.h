// What tuning and a budget of bits did, as a section of the HTML report.
#pragma once

#include <string>

#include "compiler/compile.h"
#include "compiler/compile_job.h"

namespace tandem {

// Bits by layer as a picture, and a row for each weight: its format, what its output keeps with and without data, and
// what rounding it alone would cost. "" if nothing was tuned or chosen.
std::string tuning_section_html(const ModelPlan& plan, const Recipe& recipe, const CompileReport& report);

// Writes the page that CalibrationOptions::report asks for, for a target without static encodings.
Status write_tuning_page(const CompileJob& job, const CompileReport& report);

}  // namespace tandem
