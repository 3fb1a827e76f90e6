#include "chat/messages_json.h"

#include "base/error.h"
#include "chat/jinja/template.h"
#include "chat/jinja/value.h"

namespace tandem {
namespace {

// The elements of an array, as they are written. The text was parsed: it is known to be JSON.
std::vector<std::string_view> split_array(std::string_view json) {
  std::vector<std::string_view> elements;
  int depth = 0;
  size_t begin = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth == 1) begin = i + 1;
    } else if (c == ']' || c == '}' || (c == ',' && depth == 1)) {
      if (depth == 1) {
        elements.push_back(json.substr(begin, i - begin));
        begin = i + 1;
      }
      if (c != ',') --depth;
    }
  }
  return elements;
}

}  // namespace

Result<std::vector<Message>> parse_messages(std::string_view json) {
  auto parsed = jinja::parse_json_value(json, "the conversation");
  if (!parsed.ok()) return Error{ErrorCode::kInvalidArgument, std::move(parsed).error().message};
  if (!parsed->is(jinja::Kind::kList)) return invalid_argument("the conversation should be a JSON array of messages");
  std::vector<Message> messages;
  if (parsed->items().empty()) return messages;
  const std::vector<std::string_view> texts = split_array(json);
  if (texts.size() != parsed->items().size()) return internal_error("a conversation was split wrongly");
  for (size_t i = 0; i < texts.size(); ++i) {
    const jinja::Value& object = parsed->items()[i];
    const jinja::Value* const role = object.is_dict() ? object.dict().find("role") : nullptr;
    if (role == nullptr || !role->is_string()) {
      return invalid_argument("message {} of the conversation should be a JSON object with a \"role\" that is a text",
                              i);
    }
    const jinja::Value* const content = object.dict().find("content");
    const bool has_text = content != nullptr && content->is_string();
    messages.push_back({role->text(), has_text ? content->text() : "", std::string(texts[i])});
  }
  return messages;
}

}  // namespace tandem
