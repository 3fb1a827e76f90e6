// Any bytes as the file of any task: refused, or items that can be evaluated. The first byte selects the task and the
// form of the file.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tasks/task.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto names = tandem::task_names();
  const std::string_view contents(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto task =
      tandem::parse_task(names[data[0] % names.size()], contents, data[0] < 128 ? "file.jsonl" : "file.txt", 0);
  if (!task.ok()) {
    if (task.error().code != tandem::ErrorCode::kCorrupt || task.error().message.empty()) std::abort();
    return 0;
  }
  if (task->items.empty() == task->documents.empty()) std::abort();
  for (const tandem::ChoiceItem& item : task->items) {
    if (item.choices.size() < 2 || item.gold >= item.choices.size()) std::abort();
    for (const tandem::Choice& choice : item.choices) {
      if (!choice.continuation.starts_with(' ') || choice.length < 0) std::abort();
    }
  }
  for (const tandem::TextDocument& document : task->documents) {
    if (document.words < 1 || document.bytes < 1) std::abort();
  }
  if (tandem::task_texts(*task).size() != task->items.size() + task->documents.size()) std::abort();
  return 0;
}
