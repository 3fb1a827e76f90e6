// tokenizer_config.json: what a tokenizer does around the vocabulary, and the chat template. The vocabulary itself
// (tokenizer.json) is read by tokenizer/import. Everything in it is optional, and so is the file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

struct TokenizerConfig {
  // The template called "default" if there are several (or the only one). The file chat_template.jinja, if a checkpoint
  // has one, takes precedence.
  std::optional<std::string> chat_template;
  std::map<std::string, std::string> named_templates;  // If the file has a list: "tool_use", "rag", "default", ...
  std::string tokenizer_class;                         // May be empty.
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;
  std::optional<std::string> pad_token;
  std::optional<std::string> unk_token;
  // As a JSON object: these and every other key called …_token, and additional_special_tokens, except bos and eos. ""
  // if there are none. Chat templates may ask for them by name.
  std::string special_tokens;
  std::optional<bool> add_bos_token;
  std::optional<bool> add_eos_token;
  std::optional<int64_t> model_max_length;  // Nothing if the file says "no limit" with a huge number.

  static Result<TokenizerConfig> from_json(const Json& json, std::string_view what = "tokenizer_config.json");
  static Result<TokenizerConfig> parse(std::string_view text, std::string_view what = "tokenizer_config.json");
};

}  // namespace tandem
