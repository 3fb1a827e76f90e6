#include "tasks/choice_items.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "tasks/python_text.h"

namespace tandem {
namespace {

constexpr size_t kMaxChoices = 64;  // ARC has up to five.
constexpr size_t kShownLabel = 40;

Result<std::string> required_string(const Json& line, std::string_view key) {
  TANDEM_ASSIGN(auto text, json_string(line, key));
  if (!text) return corrupt("there is no \"{}\"", key);
  return std::move(*text);
}

const Json* find_list(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it != object.end() && it->is_array() ? &*it : nullptr;
}

Result<std::vector<std::string>> required_strings(const Json& object, const char* key) {
  const Json* list = find_list(object, key);
  if (list == nullptr) return corrupt("there is no list \"{}\"", key);
  if (list->size() < 2 || list->size() > kMaxChoices) {
    return corrupt("\"{}\" has {} entries; there must be 2 to {}", key, list->size(), kMaxChoices);
  }
  std::vector<std::string> texts;
  for (const Json& entry : *list) {
    if (!entry.is_string()) return corrupt("\"{}\" has an entry that is not a string", key);
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

// A number, or text with one: the hub has both.
Result<size_t> label_of(const Json& line, const char* key, int64_t first, size_t choices) {
  const auto it = line.find(key);
  if (it == line.end() || it->is_null() || (it->is_string() && it->get<std::string>().empty())) {
    return corrupt("there is no \"{}\", the right answer; use a split that has answers", key);
  }
  int64_t label = -1;
  if (it->is_number_integer() && std::abs(it->get<double>()) < 1e6) label = it->get<int64_t>() - first;
  if (it->is_string()) {
    const auto text = it->get<std::string>();
    if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') label = text[0] - '0' - first;
  }
  if (label < 0 || label >= static_cast<int64_t>(choices)) {
    return corrupt("\"{}\" is {}; it should be a number from {} to {}", key, shortened(dump_json(*it), kShownLabel),
                   first, first + static_cast<int64_t>(choices) - 1);
  }
  return static_cast<size_t>(label);
}

ChoiceItem make_item(const std::string& context, const std::vector<std::string>& answers, size_t gold) {
  ChoiceItem item;
  for (const std::string& answer : answers) item.choices.push_back({context, " " + answer, count_characters(answer)});
  item.gold = gold;
  return item;
}

// HellaSwag's texts from WikiHow have artifacts in brackets.
std::string without_brackets(std::string_view raw) {
  const std::string text = replace_all(python_strip(raw), " [title]", ". ");
  std::string kept;
  std::string_view rest = text;
  while (true) {
    const size_t open = rest.find('[');
    const size_t end = open == std::string_view::npos ? open : rest.find_first_of("]\n", open);
    if (end == std::string_view::npos) break;
    // The pattern's dot matches no newline.
    kept += rest.substr(0, rest[end] == ']' ? open : end + 1);
    rest.remove_prefix(end + 1);
  }
  kept += rest;
  return replace_all(kept, "  ", " ");
}

Result<ChoiceItem> read_hellaswag(const Json& line) {
  TANDEM_ASSIGN(const std::string activity, required_string(line, "activity_label"));
  TANDEM_ASSIGN(const std::string before, required_string(line, "ctx_a"));
  TANDEM_ASSIGN(const std::string after, required_string(line, "ctx_b"));
  TANDEM_ASSIGN(std::vector<std::string> endings, required_strings(line, "endings"));
  TANDEM_ASSIGN(const size_t gold, label_of(line, "label", 0, endings.size()));
  for (std::string& ending : endings) ending = without_brackets(ending);
  return make_item(without_brackets(activity + ": " + before + " " + python_capitalize(after)), endings, gold);
}

struct ArcQuestion {
  std::string question;
  std::vector<std::string> texts;
  std::vector<std::string> labels;
};

// The hub's form, and the one of the dataset's authors.
Result<ArcQuestion> read_arc_question(const Json& line) {
  ArcQuestion arc;
  const auto question = line.find("question");
  if (question != line.end() && question->is_object()) {
    TANDEM_ASSIGN(arc.question, required_string(*question, "stem"));
    const Json* choices = find_list(*question, "choices");
    if (choices == nullptr || choices->size() < 2 || choices->size() > kMaxChoices) {
      return corrupt("\"question\" has no list \"choices\" of 2 to {}", kMaxChoices);
    }
    for (const Json& choice : *choices) {
      TANDEM_ASSIGN(arc.texts.emplace_back(), required_string(choice, "text"));
      TANDEM_ASSIGN(arc.labels.emplace_back(), required_string(choice, "label"));
    }
    return arc;
  }
  TANDEM_ASSIGN(arc.question, required_string(line, "question"));
  const auto choices = line.find("choices");
  if (choices == line.end()) return corrupt("there is no \"choices\"");
  TANDEM_ASSIGN(arc.texts, required_strings(*choices, "text"));
  TANDEM_ASSIGN(arc.labels, required_strings(*choices, "label"));
  if (arc.texts.size() != arc.labels.size()) {
    return corrupt("\"choices\" has {} texts and {} labels", arc.texts.size(), arc.labels.size());
  }
  return arc;
}

Result<ChoiceItem> read_arc(const Json& line) {
  TANDEM_ASSIGN(const ArcQuestion arc, read_arc_question(line));
  TANDEM_ASSIGN(const std::string key, required_string(line, "answerKey"));
  const auto gold = std::ranges::find(arc.labels, key);
  if (gold == arc.labels.end()) return corrupt("\"answerKey\" is \"{}\", which is not a label of the choices", key);
  return make_item("Question: " + arc.question + "\nAnswer:", arc.texts,
                   static_cast<size_t>(gold - arc.labels.begin()));
}

Result<ChoiceItem> read_piqa(const Json& line) {
  TANDEM_ASSIGN(const std::string goal, required_string(line, "goal"));
  std::vector<std::string> answers(2);
  TANDEM_ASSIGN(answers[0], required_string(line, "sol1"));
  TANDEM_ASSIGN(answers[1], required_string(line, "sol2"));
  TANDEM_ASSIGN(const size_t gold, label_of(line, "label", 0, 2));
  return make_item("Question: " + goal + "\nAnswer:", answers, gold);
}

// Partial evaluation: each option fills the blank, and what follows the blank is predicted.
Result<ChoiceItem> read_winogrande(const Json& line) {
  TANDEM_ASSIGN(const std::string sentence, required_string(line, "sentence"));
  TANDEM_ASSIGN(const size_t gold, label_of(line, "answer", 1, 2));
  const size_t blank = sentence.find('_');
  if (blank == std::string::npos) return corrupt("\"sentence\" has no blank (_)");
  ChoiceItem item;
  item.gold = gold;
  const std::string after = " " + std::string(python_strip(std::string_view(sentence).substr(blank + 1)));
  for (const char* key : {"option1", "option2"}) {
    TANDEM_ASSIGN(const std::string option, required_string(line, key));
    item.choices.push_back({sentence.substr(0, blank) + option, after, count_characters(after) - 1});
  }
  return item;
}

Result<size_t> mmlu_answer(const Json& line) {
  const auto answer = line.find("answer");
  if (answer != line.end() && answer->is_string()) {
    const auto letter = answer->get<std::string>();
    if (letter.size() == 1 && letter[0] >= 'A' && letter[0] <= 'D') return static_cast<size_t>(letter[0] - 'A');
  }
  return label_of(line, "answer", 0, 4);
}

Result<ChoiceItem> read_mmlu(const Json& line) {
  TANDEM_ASSIGN(const std::string question, required_string(line, "question"));
  TANDEM_ASSIGN(const std::vector<std::string> answers, required_strings(line, "choices"));
  if (answers.size() != 4) return corrupt("\"choices\" has {} entries instead of 4", answers.size());
  TANDEM_ASSIGN(const size_t gold, mmlu_answer(line));
  TANDEM_ASSIGN(const auto subject, json_string(line, "subject"));
  std::string prompt;
  if (subject && !subject->empty()) {
    prompt =
        "The following are multiple choice questions (with answers) about " + replace_all(*subject, "_", " ") + ".\n\n";
  }
  prompt += python_strip(question);
  const std::vector<std::string> letters = {"A", "B", "C", "D"};
  for (size_t i = 0; i < 4; ++i) prompt += "\n" + letters[i] + ". " + answers[i];
  return make_item(prompt + "\nAnswer:", letters, gold);
}

constexpr ChoiceTask kChoiceTasks[] = {
    {"hellaswag", true, read_hellaswag}, {"arc_easy", true, read_arc},           {"arc_challenge", true, read_arc},
    {"piqa", true, read_piqa},           {"winogrande", false, read_winogrande}, {"mmlu", false, read_mmlu},
};

}  // namespace

const ChoiceTask* find_choice_task(std::string_view name) {
  const auto* found = std::ranges::find(kChoiceTasks, name, &ChoiceTask::name);
  return found == std::end(kChoiceTasks) ? nullptr : found;
}

std::vector<std::string_view> choice_task_names() {
  std::vector<std::string_view> names;
  for (const ChoiceTask& task : kChoiceTasks) names.push_back(task.name);
  return names;
}

}  // namespace tandem
