// Items of multiple choice tasks, each from one line of JSON.
#pragma once

#include "base/json.h"
#include "tasks/task.h"

namespace tandem {

struct ChoiceTask {
  std::string_view name;
  bool has_acc_norm = false;
  Result<ChoiceItem> (*read_item)(const Json& line) = nullptr;
};

// Null if there is no such task.
const ChoiceTask* find_choice_task(std::string_view name);
std::vector<std::string_view> choice_task_names();

}  // namespace tandem
