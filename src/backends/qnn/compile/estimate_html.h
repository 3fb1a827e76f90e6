// Estimates as a section of the report page.
#pragma once

#include <string>

#include "compiler/estimate_report.h"

namespace tandem {

// A heading, pictures of the time by shard and of the traffic by kind, and a table. No scripts.
std::string estimate_html(const EstimateReport& report);

}  // namespace tandem
