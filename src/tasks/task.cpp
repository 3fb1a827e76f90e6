#include "tasks/task.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tasks/choice_items.h"
#include "tasks/documents.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr uint64_t kTaskFileLimit = uint64_t{1} << 30;
constexpr std::string_view kWikitext = "wikitext";
constexpr std::string_view kText = "text";

bool is_full(const Task& task, int64_t limit) {
  return limit > 0 && static_cast<int64_t>(std::max(task.items.size(), task.documents.size())) >= limit;
}

// Calls `read` with each line that is not blank, until the task is full.
Status for_each_line(std::string_view contents, const std::string& file, Task& task, int64_t limit,
                     const std::function<Status(const Json& line)>& read) {
  int64_t number = 0;
  while (!contents.empty() && !is_full(task, limit)) {
    const size_t end = std::min(contents.find('\n'), contents.size());
    const std::string_view line = contents.substr(0, end);
    contents.remove_prefix(std::min(end + 1, contents.size()));
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = str_format("{}, line {}", file, number);
    TANDEM_ASSIGN(const Json json, parse_json(line, where));
    if (!json.is_object()) {
      return corrupt("{}: not a JSON object; the task {} reads JSON lines, one object a line", where, task.name);
    }
    if (Status status = read(json); !status.ok()) {
      return with_context(std::move(status).error(), "{}: as an item of {}", where, task.name);
    }
  }
  return ok_status();
}

TextDocument make_document(std::string_view task, std::string_view text) {
  return task == kWikitext ? wikitext_document(text) : plain_document(text);
}

Status read_document(const Json& line, Task& task) {
  for (const char* key : {"page", "text"}) {
    TANDEM_ASSIGN(const auto text, json_string(line, key));
    if (!text) continue;
    if (!text->empty()) task.documents.push_back(make_document(task.name, *text));
    return ok_status();
  }
  return corrupt("there is neither \"page\" nor \"text\"");
}

bool is_json_lines(const std::filesystem::path& file) {
  const auto extension = file.extension();
  return extension == ".jsonl" || extension == ".ndjson" || extension == ".json";
}

Status read_documents(std::string_view contents, const std::filesystem::path& file, int64_t limit, Task& task) {
  if (is_json_lines(file)) {
    return for_each_line(contents, file.string(), task, limit,
                         [&](const Json& line) { return read_document(line, task); });
  }
  if (!is_valid_utf8(contents)) return corrupt("{} is not UTF-8 text", file.string());
  const auto pages = task.name == kWikitext ? wikitext_pages(contents) : std::vector<std::string_view>{contents};
  for (const std::string_view page : pages) {
    if (is_full(task, limit)) break;
    if (!page.empty()) task.documents.push_back(make_document(task.name, page));
  }
  return ok_status();
}

}  // namespace

std::vector<std::string_view> task_names() {
  std::vector<std::string_view> names = choice_task_names();
  names.push_back(kWikitext);
  names.push_back(kText);
  return names;
}

Status check_task_name(std::string_view name) {
  const auto names = task_names();
  if (std::ranges::find(names, name) != names.end()) return ok_status();
  return invalid_argument("task \"{}\" is unknown; there are {}", name, str_join(names, ", "));
}

Result<Task> parse_task(std::string_view name, std::string_view contents, const std::filesystem::path& file,
                        int64_t limit) {
  TANDEM_TRY(check_task_name(name));
  Task task;
  task.name = name;
  task.source = file.filename().string();
  task.hash = hash_bytes({reinterpret_cast<const uint8_t*>(contents.data()), contents.size()});
  if (const ChoiceTask* choices = find_choice_task(name)) {
    task.has_acc_norm = choices->has_acc_norm;
    TANDEM_TRY(for_each_line(contents, file.string(), task, limit, [&](const Json& line) -> Status {
      TANDEM_ASSIGN(task.items.emplace_back(), choices->read_item(line));
      return ok_status();
    }));
  } else {
    TANDEM_TRY(read_documents(contents, file, limit, task));
  }
  if (task.items.empty() && task.documents.empty()) return corrupt("{} has nothing in it", file.string());
  return task;
}

Result<Task> read_task(std::string_view name, const std::filesystem::path& path, int64_t limit) {
  TANDEM_TRY(check_task_name(name));
  TANDEM_ASSIGN(const std::string contents, read_text_file(path, kTaskFileLimit));
  return parse_task(name, contents, path, limit);
}

std::vector<std::string> task_texts(const Task& task) {
  std::vector<std::string> texts;
  for (const ChoiceItem& item : task.items) {
    const Choice& right = item.choices[item.gold];
    texts.push_back(right.context + right.continuation);
  }
  for (const TextDocument& document : task.documents) texts.push_back(document.text);
  return texts;
}

}  // namespace tandem
