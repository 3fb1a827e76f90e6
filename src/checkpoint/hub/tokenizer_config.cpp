#include "checkpoint/hub/tokenizer_config.h"

#include "base/error.h"
#include "checkpoint/hub/config_reader.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

// A token is a string, or an object with its content and matching options.
Result<std::optional<std::string>> read_token(const Json& json, const char* key, std::string_view what) {
  const auto it = json.find(key);
  if (it == json.end() || it->is_null()) return std::optional<std::string>();
  if (it->is_string()) return std::optional(it->get<std::string>());
  if (it->is_object()) {
    const auto content = it->find("content");
    if (content != it->end() && content->is_string()) return std::optional(content->get<std::string>());
  }
  return corrupt("{}: key \"{}\" should be a string or an object with \"content\"", what, key);
}

// Values of another form are no errors here: a template just cannot ask for them.
std::string other_special_tokens(const Json& json) {
  Json tokens = Json::object();
  const auto text_of = [](const Json& token) -> const Json* {
    if (token.is_string()) return &token;
    const auto content = token.is_object() ? token.find("content") : token.end();
    return token.is_object() && content != token.end() && content->is_string() ? &*content : nullptr;
  };
  for (const auto& [key, value] : json.items()) {
    if (key.ends_with("_token") && key != "bos_token" && key != "eos_token") {
      if (const Json* text = text_of(value)) tokens[key] = *text;
    }
    if (key != "additional_special_tokens" || !value.is_array()) continue;
    Json list = Json::array();
    for (const Json& item : value) {
      if (const Json* text = text_of(item)) list.push_back(*text);
    }
    if (!list.empty()) tokens[key] = std::move(list);
  }
  return tokens.empty() ? "" : dump_json(tokens);
}

Status read_templates(const Json& json, std::string_view what, TokenizerConfig& config) {
  const auto it = json.find("chat_template");
  if (it == json.end() || it->is_null()) return ok_status();
  if (it->is_string()) {
    config.chat_template = it->get<std::string>();
    return ok_status();
  }
  if (!it->is_array()) {
    return corrupt("{}: key \"chat_template\" should be a string or a list, but is {}", what, it->type_name());
  }
  for (const Json& item : *it) {
    const auto name = item.find("name");
    const auto text = item.find("template");
    if (!item.is_object() || name == item.end() || text == item.end() || !name->is_string() || !text->is_string()) {
      return corrupt("{}: each item of \"chat_template\" needs a \"name\" and a \"template\"", what);
    }
    const auto [place, is_new] = config.named_templates.emplace(name->get<std::string>(), text->get<std::string>());
    if (!is_new) return corrupt("{}: two chat templates are called \"{}\"", what, printable_name(place->first));
  }
  const auto chosen = config.named_templates.find("default");
  if (chosen != config.named_templates.end()) {
    config.chat_template = chosen->second;
  } else if (config.named_templates.size() == 1) {
    config.chat_template = config.named_templates.begin()->second;
  }
  return ok_status();
}

}  // namespace

Result<TokenizerConfig> TokenizerConfig::from_json(const Json& json, std::string_view what) {
  if (!json.is_object()) return corrupt("{}: should be a JSON object, but is {}", what, json.type_name());
  ConfigReader reader(json, what);
  TokenizerConfig config;
  TANDEM_TRY(read_templates(json, what, config));
  TANDEM_ASSIGN(const auto tokenizer_class, reader.string({"tokenizer_class"}));
  config.tokenizer_class = tokenizer_class.value_or("");
  TANDEM_ASSIGN(config.bos_token, read_token(json, "bos_token", what));
  TANDEM_ASSIGN(config.eos_token, read_token(json, "eos_token", what));
  TANDEM_ASSIGN(config.pad_token, read_token(json, "pad_token", what));
  TANDEM_ASSIGN(config.unk_token, read_token(json, "unk_token", what));
  config.special_tokens = other_special_tokens(json);
  TANDEM_ASSIGN(config.add_bos_token, reader.boolean({"add_bos_token"}));
  TANDEM_ASSIGN(config.add_eos_token, reader.boolean({"add_eos_token"}));
  // "No limit" is written as 10^30, which does not fit an integer.
  TANDEM_ASSIGN(const auto max_length, reader.number({"model_max_length"}));
  if (max_length && *max_length >= 1 && *max_length <= INT32_MAX) {
    config.model_max_length = static_cast<int64_t>(*max_length);
  }
  return config;
}

Result<TokenizerConfig> TokenizerConfig::parse(std::string_view text, std::string_view what) {
  TANDEM_ASSIGN(const Json json, parse_json(text, what));
  return from_json(json, what);
}

}  // namespace tandem
