// The results of `tandem eval --task`, for people and as JSON.
#pragma once

#include <string>

#include "base/json.h"
#include "eval/task_metrics.h"

namespace tandem {

std::string task_text(const TaskReport& report);
// Of one phase, or of several in a list "phases".
Json task_json(const TaskReport& report, bool is_list);

}  // namespace tandem
