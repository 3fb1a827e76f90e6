// Estimates of an NPU's methods as tables for people, on standard output.
#pragma once

#include <string_view>

#include "compiler/estimate_report.h"

namespace tandem {

// After a compile: all of it.
void show_estimates(const EstimateReport& report);
// For a file: the stored estimates, for the device it was compiled for.
void show_estimates(const StoredEstimate& stored, uint32_t soc_model);
Json estimates_json(const StoredEstimate& stored, uint32_t soc_model);

}  // namespace tandem
