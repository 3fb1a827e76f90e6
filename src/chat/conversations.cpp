#include "chat/conversations.h"

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

constexpr uint64_t kFileLimit = uint64_t{1} << 30;

}  // namespace

Result<std::vector<Conversation>> read_conversations(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kFileLimit));
  TANDEM_ASSIGN(const Json json, parse_json(text, path.string()));
  const Json* list = json.is_object() && json.contains("conversations") ? &json["conversations"] : &json;
  if (!list->is_array()) return corrupt("{}: no list of conversations", path.string());
  std::vector<Conversation> conversations;
  for (const Json& item : *list) {
    if (!item.is_array()) return corrupt("{}: a conversation is not a list of messages", path.string());
    Conversation conversation;
    for (const Json& message : item) {
      TANDEM_ASSIGN(const auto role, json_string(message, "role"));
      TANDEM_ASSIGN(const auto content, json_string(message, "content"));
      if (!role || !content) return corrupt("{}: a message lacks role or content", path.string());
      conversation.push_back({*role, *content});
    }
    conversations.push_back(std::move(conversation));
  }
  return conversations;
}

}  // namespace tandem
