// Chat templates: the messages of a conversation as the one text that a model was trained on.
//
// A checkpoint's template is a Jinja program, run by text/jinja. Where a checkpoint has none, but ChatML's tokens are
// in its vocabulary, ChatML it is.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "chat/jinja/template.h"
#include "tandem/message.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// What a checkpoint says about its template.
struct ChatTemplateSource {
  std::string text = {};       // "": it has none.
  std::string tool_use = {};   // The one for conversations with tools; "": the same.
  std::string bos_token = {};  // "": it has none, and the variable is undefined.
  std::string eos_token = {};
  std::string special_tokens = {};  // The others, as a JSON object: {"pad_token": "<pad>"}; may be "".
};

// Of a TokenizerConfig, which this room knows nothing of.
template <typename TokenizerConfig>
ChatTemplateSource chat_template_source(const TokenizerConfig& config) {
  const auto tool_use = config.named_templates.find("tool_use");
  return {config.chat_template.value_or(""), tool_use == config.named_templates.end() ? "" : tool_use->second,
          config.bos_token.value_or(""), config.eos_token.value_or(""), config.special_tokens};
}

// <|im_start|>role\ncontent<|im_end|>\n for each message.
extern const std::string_view kChatMlTemplate;

// Immutable, so that any number of threads may use one.
class ChatTemplate {
 public:
  static Result<ChatTemplate> create(const ChatTemplateSource& source);

  // The text of the messages; with `add_generation_prompt`, up to where the assistant's answer begins. `variables` is a
  // JSON object with what else the template may ask for ("tools", "enable_thinking", …), or "". Its "now" is the ISO
  // time for strftime_now. A token that is null is undefined.
  Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt,
                             std::string_view variables = {}) const;
  // The same with whose words its parts are, for Tokenizer::encode. The template's own, besides what it writes itself:
  // the file's tokens (bos_token and the like; also given as a variable, if it is the same text), and a role that is a
  // plain word, of which templates make tokens ('<|' + role + '|>'). What messages of the role "assistant" hold is the
  // model's; all else in messages and variables is data, keys included.
  Result<jinja::MarkedText> render_marked(std::span<const Message> messages, bool add_generation_prompt,
                                          std::string_view variables = {}) const;
  // The same for messages of any form, and variables that are parsed already (a dict or undefined).
  Result<std::string> render(const jinja::Value& messages, bool add_generation_prompt,
                             const jinja::Value& variables) const;
  Result<jinja::MarkedText> render_marked(const jinja::Value& messages, bool add_generation_prompt,
                                          const jinja::Value& variables) const;

  // As it was given, with the one for tools and the file's tokens: where a model's control tokens are named.
  const std::string& source() const { return source_; }

 private:
  // What the caller gives under the name of a variable, as the template gets it.
  jinja::Value variable(const jinja::Value& name, const jinja::Value& value) const;

  std::string source_;
  jinja::Template text_;
  std::optional<jinja::Template> tool_use_;
  jinja::Value tokens_;  // bos_token and the like.
};

// The template of a model, whose tokenizer (may be null) tells whether it knows ChatML where it has no template.
Result<std::unique_ptr<ChatTemplate>> make_chat_template(const ChatTemplateSource& source, const Tokenizer* tokenizer);

// A message with its other fields.
Result<jinja::Value> message_value(const Message& message);

}  // namespace tandem
