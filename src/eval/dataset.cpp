#include "eval/dataset.h"

#include <algorithm>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "tasks/python_text.h"

namespace tandem {
namespace {

constexpr uint64_t kFileLimit = uint64_t{1} << 30;
constexpr int64_t kDefaultConversations = 200;
constexpr size_t kPromptTokens = 32;

void cut_into_windows(std::span<const int32_t> ids, int64_t window, int64_t limit, Dataset& dataset) {
  for (size_t at = 0; at < ids.size() && (limit == 0 || static_cast<int64_t>(dataset.sequences.size()) < limit);
       at += static_cast<size_t>(window)) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, static_cast<size_t>(window)));
    if (part.size() > 1) dataset.sequences.emplace_back(part.begin(), part.end());
  }
}

Status read_chats(const DatasetOptions& options, const TestedModel& model, int64_t limit, Dataset& dataset) {
  TANDEM_ASSIGN(dataset.conversations, read_conversations(options.conversations));
  for (const Conversation& conversation : dataset.conversations) {
    if (limit > 0 && static_cast<int64_t>(dataset.sequences.size()) >= limit) break;
    TANDEM_ASSIGN(const std::string text, model.render_chat(conversation, false));
    TANDEM_ASSIGN(std::vector<int32_t> tokens, model.encode(text, false));
    dataset.sequences.push_back(std::move(tokens));
  }
  return ok_status();
}

// The text of all tokens but the first of each window, which is not predicted. Differences of decoded texts, because a
// decoder may drop a space at its input's beginning.
Result<TextSize> scored_text(const TestedModel& model, const Dataset& dataset) {
  TextSize size;
  for (const std::vector<int32_t>& sequence : dataset.sequences) {
    TANDEM_ASSIGN(const std::string all, model.decode(sequence));
    TANDEM_ASSIGN(const std::string first, model.decode(std::span(sequence).first(1)));
    size.bytes += static_cast<int64_t>(all.size()) - static_cast<int64_t>(first.size());
    size.words += count_words(all) - count_words(first);
  }
  ++size.words;  // Counted were the spaces between them.
  return size;
}

}  // namespace

Status DatasetOptions::check() const {
  if (!conversations.empty() + !text.empty() + !ids.empty() == 1) return ok_status();
  return invalid_argument("give one of `conversations`, `text` and `ids`");
}

int64_t Dataset::scored_tokens() const {
  int64_t count = 0;
  for (const auto& sequence : sequences) count += std::max<int64_t>(static_cast<int64_t>(sequence.size()) - 1, 0);
  return count;
}

Result<Dataset> read_dataset(const DatasetOptions& options, const TestedModel& model, int64_t context) {
  TANDEM_TRY(options.check());
  Dataset dataset;
  const int64_t window = options.window > 0 ? options.window : context;
  // The last token of a sequence is only a target: it needs no position.
  if (window < 2 || window > context + 1) {
    return invalid_argument("a `window` of {} does not fit the context of {}", window, context);
  }
  const int64_t default_limit = options.conversations.empty() ? 0 : kDefaultConversations;
  const int64_t limit = options.limit < 0 ? default_limit : options.limit;
  if (!options.conversations.empty()) {
    TANDEM_TRY(read_chats(options, model, limit, dataset));
  } else if (!options.text.empty()) {
    TANDEM_ASSIGN(const std::string text, read_text_file(options.text, kFileLimit));
    TANDEM_ASSIGN(const std::vector<int32_t> ids, model.encode(text, true));
    cut_into_windows(ids, window, limit, dataset);
    TANDEM_ASSIGN(dataset.text, scored_text(model, dataset));
  } else {
    TANDEM_ASSIGN(const std::vector<int32_t> ids, read_ids(options.ids));
    cut_into_windows(ids, window, limit, dataset);
  }
  if (dataset.scored_tokens() == 0) {
    return invalid_argument("there is nothing to measure: no sequence of two tokens or more");
  }
  for (size_t i = 0; i < dataset.sequences.size(); ++i) {
    if (static_cast<int64_t>(dataset.sequences[i].size()) <= context + 1) continue;
    return resource_exhausted("sequence {} has {} tokens and the context {}; compile with a larger `context`", i,
                              dataset.sequences[i].size(), context);
  }
  const auto& path = !options.text.empty() ? options.text : !options.ids.empty() ? options.ids : options.conversations;
  TANDEM_ASSIGN(dataset.data, identify_data(path));
  return dataset;
}

Result<std::vector<int32_t>> prompt_of(const Dataset& dataset, const std::string& prompt, const TestedModel& model) {
  std::vector<Message> messages;
  if (!prompt.empty()) {
    messages.push_back({"user", prompt});
  } else if (!dataset.conversations.empty()) {
    for (const Message& message : dataset.conversations.front()) {
      messages.push_back(message);
      if (message.role == "user") break;
    }
  } else {
    const std::vector<int32_t>& first = dataset.sequences.front();
    return std::vector<int32_t>(first.begin(),
                                first.begin() + static_cast<std::ptrdiff_t>(std::min(kPromptTokens, first.size())));
  }
  const auto chat = model.render_chat(messages, true);
  if (!chat.ok() && prompt.empty()) return chat.error();
  return chat.ok() ? model.encode(*chat, false) : model.encode(prompt, true);
}

Result<std::vector<int32_t>> read_ids(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kFileLimit));
  TANDEM_ASSIGN(const Json json, parse_json(text, path.string()));
  const Json* list = &json;
  for (const char* key : {"valid_ids", "ids"}) {
    if (json.is_object() && json.contains(key)) {
      list = &json[key];
      break;
    }
  }
  if (!list->is_array())
    return corrupt("{}: no list of token ids (\"valid_ids\", \"ids\" or a plain list)", path.string());
  std::vector<int32_t> ids;
  ids.reserve(list->size());
  for (const Json& item : *list) {
    if (!item.is_number_integer() || item.get<int64_t>() < 0 || item.get<int64_t>() > INT32_MAX) {
      return corrupt("{}: entry {} is not a token id", path.string(), ids.size());
    }
    ids.push_back(item.get<int32_t>());
  }
  return ids;
}

}  // namespace tandem
