// Chat templates: render the messages of a conversation as the one text that a model was trained on.
//
// A checkpoint's template is a Jinja program, run by chat/jinja. A checkpoint without one whose vocabulary has ChatML's
// tokens gets ChatML.
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

// A checkpoint's template and the tokens that it uses.
struct ChatTemplateSource {
  std::string text = {};       // "": it has none.
  std::string tool_use = {};   // The one for conversations with tools; "": the same.
  std::string bos_token = {};  // "": it has none, and the variable is undefined.
  std::string eos_token = {};
  std::string special_tokens = {};  // The others, as a JSON object: {"pad_token": "<pad>"}; may be "".
};

// From a TokenizerConfig, which this module does not know.
template <typename TokenizerConfig>
ChatTemplateSource chat_template_source(const TokenizerConfig& config) {
  const auto tool_use = config.named_templates.find("tool_use");
  return {config.chat_template.value_or(""), tool_use == config.named_templates.end() ? "" : tool_use->second,
          config.bos_token.value_or(""), config.eos_token.value_or(""), config.special_tokens};
}

// <|im_start|>role\ncontent<|im_end|>\n for each message.
extern const std::string_view kChatMlTemplate;

// Immutable, so that any number of threads may share one.
class ChatTemplate {
 public:
  static Result<ChatTemplate> create(const ChatTemplateSource& source);

  // The text of the messages; with `add_generation_prompt`, up to where the assistant's answer begins. `variables` is a
  // JSON object with further variables of the template ("tools", "enable_thinking", …), or "". Its "now" is the ISO
  // time for strftime_now. A token that is null is undefined.
  Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt,
                             std::string_view variables = {}) const;
  // The same with the origin of its parts, for Tokenizer::encode. Besides its own text, these count as the template's:
  // the file's tokens (bos_token and the like; also as a variable, if it is the same text), and a role that is a plain
  // word, from which templates make tokens ('<|' + role + '|>'). The content of messages with the role "assistant" is
  // the model's; everything else in messages and variables is data, keys included.
  Result<jinja::MarkedText> render_marked(std::span<const Message> messages, bool add_generation_prompt,
                                          std::string_view variables = {}) const;
  // The same for messages of any form, and variables that are already parsed (a dict or undefined).
  Result<std::string> render(const jinja::Value& messages, bool add_generation_prompt,
                             const jinja::Value& variables) const;
  Result<jinja::MarkedText> render_marked(const jinja::Value& messages, bool add_generation_prompt,
                                          const jinja::Value& variables) const;

  // The source as given, with the one for tools and the file's tokens: where a model's control tokens are named.
  const std::string& source() const { return source_; }

 private:
  // A caller's variable, as the template gets it.
  jinja::Value variable(const jinja::Value& name, const jinja::Value& value) const;

  std::string source_;
  jinja::Template text_;
  std::optional<jinja::Template> tool_use_;
  jinja::Value tokens_;  // bos_token and the like.
};

// A model's template. Without one, its tokenizer (may be null) decides whether ChatML fits.
Result<std::unique_ptr<ChatTemplate>> make_chat_template(const ChatTemplateSource& source, const Tokenizer* tokenizer);

// A message with its other fields.
Result<jinja::Value> message_value(const Message& message);

}  // namespace tandem
