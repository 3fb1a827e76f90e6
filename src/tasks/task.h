// Evaluation tasks from local files: multiple choice (HellaSwag, ARC, PIQA, WinoGrande, MMLU) and texts (WikiText),
// read in the forms in which the Hugging Face hub has them and prepared as lm-eval's tasks of the same names do,
// without examples in the prompt (zero-shot).
//
//   TANDEM_ASSIGN(const Task task, read_task("arc_easy", "ARC-Easy-Test.jsonl", /*limit=*/100));
//   for (const ChoiceItem& item : task.items) ...        // Multiple choice,
//   for (const TextDocument& text : task.documents) ...  // or texts.
//   for (const std::string& text : task_texts(task)) ... // Either, as plain texts to calibrate with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// One possible answer: how likely is `continuation` after `context`?
struct Choice {
  std::string context;       // The same for all choices of most tasks.
  std::string continuation;  // Begins with the space that separates it from the context.
  int64_t length = 0;        // Characters of the answer: acc_norm divides the log-likelihood by it.
};

struct ChoiceItem {
  std::vector<Choice> choices;  // Two or more.
  size_t gold = 0;              // Index of the right one.
};

struct TextDocument {
  std::string text;   // What a model predicts.
  int64_t words = 0;  // Of the text as it was in the file: perplexities are normalized by these two.
  int64_t bytes = 0;
};

struct Task {
  std::string name;
  std::string source;         // The file's name, without folders.
  uint64_t hash = 0;          // hash_bytes() of the whole file, however many of its items were read.
  bool has_acc_norm = false;  // Whether lm-eval reports acc_norm for this task.
  // One of the two is empty, the other is not.
  std::vector<ChoiceItem> items;
  std::vector<TextDocument> documents;
};

// "hellaswag", "arc_easy", "arc_challenge", "piqa", "winogrande", "mmlu", "wikitext", "text"
std::vector<std::string_view> task_names();
// An error that lists the names if there is no such task.
Status check_task_name(std::string_view name);

// Reads up to `limit` items or documents; 0: all. Items that lack something are errors that name the line: leaving them
// out would change the figures. A file of texts is JSON lines if its name ends with .jsonl, .ndjson or .json, otherwise
// plain text: articles for "wikitext" (split at their titles), one document for "text".
Result<Task> read_task(std::string_view name, const std::filesystem::path& path, int64_t limit);
// The same from a file's contents. `file` is its name, for messages and for the form of the contents.
Result<Task> parse_task(std::string_view name, std::string_view contents, const std::filesystem::path& file,
                        int64_t limit);

// Each item with its right answer, or each document, as a text.
std::vector<std::string> task_texts(const Task& task);

}  // namespace tandem
