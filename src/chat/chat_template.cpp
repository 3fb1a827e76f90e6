#include "chat/chat_template.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace tandem {

using jinja::Kind;
using jinja::Value;

const std::string_view kChatMlTemplate =
    "{%- for message in messages -%}\n"
    "  {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}\n"
    "{%- endfor -%}\n"
    "{%- if add_generation_prompt -%} {{- '<|im_start|>assistant\\n' -}} {%- endif -%}";

namespace {

bool is_token_name(std::string_view name) { return name.ends_with("_token"); }

// Something like "user" or "tool_response": no template turns such a word into a token that it did not mean to write.
bool is_plain_word(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, plain);
}

Value role_value(const std::string& role) { return is_plain_word(role) ? Value::literal(role) : Value::string(role); }

Result<Value> parse_object(std::string_view json, std::string_view what, Origin origin = Origin::kData) {
  TANDEM_ASSIGN(Value value, jinja::parse_json_value(json, what, origin));
  if (!value.is_dict()) return invalid_argument("{} should be a JSON object", what);
  return value;
}

// What is wrong with the caller's JSON is wrong with an argument, and not with a file.
Result<Value> parse_argument(std::string_view json, std::string_view what, Origin origin = Origin::kData) {
  auto value = parse_object(json, what, origin);
  if (!value.ok()) return Error{ErrorCode::kInvalidArgument, std::move(value).error().message};
  return value;
}

}  // namespace

Result<Value> message_value(const Message& message) {
  auto dict = std::make_shared<jinja::DictObject>();
  const std::string* const parts[] = {&message.role, &message.content};
  for (const std::string* part : parts) {
    if (!jinja::is_valid_text(*part)) return invalid_argument("a message is not valid UTF-8");
  }
  // The fields may have another role; then the message counts as the model's only if both say so.
  Origin origin = message.role == "assistant" ? Origin::kAssistant : Origin::kData;
  Value fields;
  if (!message.fields.empty()) {
    TANDEM_ASSIGN(fields, parse_argument(message.fields, "the fields of a message", origin));
    const Value* role = fields.dict().find("role");
    const bool other = role != nullptr && !(role->is_string() && role->text() == message.role);
    if (other && origin != Origin::kData) {
      origin = Origin::kData;
      TANDEM_ASSIGN(fields, parse_argument(message.fields, "the fields of a message", origin));
    }
  }
  dict->set(Value::literal("role"), role_value(message.role));
  dict->set(Value::literal("content"), Value::string(jinja::MarkedText(message.content, origin)));
  if (fields.is_dict()) {
    for (const auto& [key, value] : fields.dict().items) {
      dict->set(key, key.text() == "role" && value.is_string() ? role_value(value.text()) : value);
    }
  }
  return Value::object(Kind::kDict, std::move(dict));
}

Result<ChatTemplate> ChatTemplate::create(const ChatTemplateSource& source) {
  ChatTemplate chat;
  for (const std::string* part :
       {&source.text, &source.tool_use, &source.bos_token, &source.eos_token, &source.special_tokens}) {
    chat.source_.append(*part).append("\n");
  }
  TANDEM_ASSIGN(chat.text_, jinja::Template::parse(source.text));
  if (!source.tool_use.empty()) {
    TANDEM_ASSIGN(chat.tool_use_, jinja::Template::parse(source.tool_use));
  }
  auto tokens = std::make_shared<jinja::DictObject>();
  for (const auto& [name, token] : {std::pair("bos_token", &source.bos_token), {"eos_token", &source.eos_token}}) {
    if (token->empty()) continue;
    if (!jinja::is_valid_text(*token)) return corrupt("{} is not valid UTF-8", name);
    tokens->set(Value::literal(name), Value::literal(*token));
  }
  if (!source.special_tokens.empty()) {
    TANDEM_ASSIGN(const Value more, parse_object(source.special_tokens, "the special tokens", Origin::kTemplate));
    for (const auto& [key, value] : more.dict().items) {
      if (!value.is_none()) tokens->set(key, value);
    }
  }
  chat.tokens_ = Value::object(Kind::kDict, std::move(tokens));
  return chat;
}

Result<std::string> ChatTemplate::render(std::span<const Message> messages, bool add_generation_prompt,
                                         std::string_view variables) const {
  TANDEM_ASSIGN(jinja::MarkedText text, render_marked(messages, add_generation_prompt, variables));
  return std::move(text).take();
}

Result<std::string> ChatTemplate::render(const Value& messages, bool add_generation_prompt,
                                         const Value& variables) const {
  TANDEM_ASSIGN(jinja::MarkedText text, render_marked(messages, add_generation_prompt, variables));
  return std::move(text).take();
}

Result<jinja::MarkedText> ChatTemplate::render_marked(std::span<const Message> messages, bool add_generation_prompt,
                                                      std::string_view variables) const {
  std::vector<Value> list;
  for (const Message& message : messages) {
    TANDEM_ASSIGN(Value value, message_value(message));
    list.push_back(std::move(value));
  }
  Value more;
  if (!variables.empty()) {
    TANDEM_ASSIGN(more, parse_argument(variables, "the template's variables"));
  }
  return render_marked(Value::list(std::move(list)), add_generation_prompt, more);
}

Value ChatTemplate::variable(const Value& name, const Value& value) const {
  if (!is_token_name(name.text())) return value;
  if (value.is_none()) return Value::undefined(str_format("'{}' is undefined", name.text()));
  const Value* own = tokens_.dict().find(name);
  return own != nullptr && own->is_string() && value.is_string() && own->text() == value.text() ? *own : value;
}

Result<jinja::MarkedText> ChatTemplate::render_marked(const Value& messages, bool add_generation_prompt,
                                                      const Value& variables) const {
  auto all = std::make_shared<jinja::DictObject>();
  // To a template, absent tools and documents are none, not undefined.
  all->set(Value::literal("tools"), Value::none());
  all->set(Value::literal("documents"), Value::none());
  all->set(Value::literal("add_generation_prompt"), Value::boolean(add_generation_prompt));
  for (const auto& [key, value] : tokens_.dict().items) all->set(key, value);
  jinja::RenderOptions options;
  bool has_tools = false;
  if (variables.is_dict()) {
    for (const auto& [key, value] : variables.dict().items) {
      if (key.text() == "now") {
        if (!value.is_string()) return invalid_argument("\"now\" should be an ISO time: \"2025-07-04T09:05:03\"");
        TANDEM_ASSIGN(options.now, jinja::parse_iso_time(value.text()));
      } else {
        all->set(key, variable(key, value));
        if (key.text() == "tools") has_tools = !value.is_none();
      }
    }
  }
  all->set(Value::literal("messages"), messages);
  const jinja::Template& chosen = has_tools && tool_use_ ? *tool_use_ : text_;
  return chosen.render_marked(Value::object(Kind::kDict, std::move(all)), options);
}

Result<std::unique_ptr<ChatTemplate>> make_chat_template(const ChatTemplateSource& source, const Tokenizer* tokenizer) {
  ChatTemplateSource used = source;
  if (used.text.empty()) {
    const bool has_chatml =
        tokenizer != nullptr && tokenizer->token_to_id("<|im_start|>") && tokenizer->token_to_id("<|im_end|>");
    if (!has_chatml) {
      return not_found(
          "the model has no chat template and no ChatML tokens in its vocabulary; use `generate()` to give it the "
          "prompt as it is");
    }
    used.text = kChatMlTemplate;
  }
  auto chat = ChatTemplate::create(used);
  if (!chat.ok()) return with_context(std::move(chat).error(), "the model's chat template cannot be used");
  return std::make_unique<ChatTemplate>(std::move(chat).value());
}

}  // namespace tandem
