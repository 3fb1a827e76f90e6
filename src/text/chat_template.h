// Chat templates: the messages of a conversation as the one text that a model was trained on.
//
// ChatML is built in. Templates of checkpoints are Jinja programs; an engine for them will implement ChatTemplate too.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tandem/message.h"
#include "tandem/status.h"

namespace tandem {

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  // The text of the messages; with `add_generation_prompt`, up to where the assistant's answer begins.
  virtual Result<std::string> render(std::span<const Message> messages, bool add_generation_prompt) const = 0;
};

// <|im_start|>role\ncontent<|im_end|>\n for each message.
std::unique_ptr<ChatTemplate> make_chatml_template();

// True if a Jinja template does what make_chatml_template() does, and nothing else (no default system turn, no tools).
bool is_chatml_template(std::string_view jinja_source);

// The template of a checkpoint. An empty source means that the checkpoint has none: then ChatML, if the vocabulary has
// its tokens. Anything else than ChatML is kUnsupported for now; the message says what works instead.
Result<std::unique_ptr<ChatTemplate>> make_chat_template(std::string_view jinja_source,
                                                         bool vocabulary_has_chatml_tokens);

}  // namespace tandem
