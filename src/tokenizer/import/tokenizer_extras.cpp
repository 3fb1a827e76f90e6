#include "tokenizer/import/tokenizer_extras.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/error.h"
#include "base/file_status.h"
#include "base/mapped_file.h"
#include "tokenizer/import/tokenizer_json.h"
#include "tokenizer/import/tokenizer_json_steps.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxFileBytes = 64u << 20;

// Null if there is no such file.
Result<Json> read_json_file(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
  if (!is_there) return Json();
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  TANDEM_ASSIGN(Json json, parse_json(text, path.string()));
  if (!json.is_object()) return corrupt("{}: not a JSON object", path.string());
  return json;
}

// A token is written as a string, or as an object with its content and flags.
Result<std::optional<std::string>> token_content(const Json& object, const char* key) {
  const Json* value = json_member(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (value->is_object()) return json_string(*value, "content");
  return json_string(object, key);
}

Result<uint32_t> checked_id(int64_t id, std::string_view content) {
  if (id < 0 || id >= int64_t{kMaxTokenId}) return corrupt("the added token \"{}\" has no valid id", content);
  return static_cast<uint32_t>(id);
}

// {"151643": {"content": "<|endoftext|>", "special": true, …}, …}
Status read_added_tokens_decoder(const Json& list, TokenizerExtras& extras) {
  if (!list.is_object()) return corrupt("added_tokens_decoder is not an object");
  for (const auto& [key, item] : list.items()) {
    TANDEM_ASSIGN(AddedToken token, read_added_token(item));
    int64_t id = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || end != key.data() + key.size()) id = -1;
    TANDEM_ASSIGN(token.id, checked_id(id, token.content));
    extras.added_tokens.push_back(std::move(token));
  }
  return ok_status();
}

// {"<|im_start|>": 151644, …}
Status read_added_tokens_file(const Json& list, TokenizerExtras& extras) {
  for (const auto& [content, value] : list.items()) {
    const bool known = std::any_of(extras.added_tokens.begin(), extras.added_tokens.end(),
                                   [&, &name = content](const AddedToken& token) { return token.content == name; });
    if (known) continue;
    AddedToken token;
    token.content = content;
    if (content.size() > kMaxAddedTokenBytes) return unsupported("added_tokens.json has a token that is too long");
    TANDEM_ASSIGN(token.id, checked_id(value.is_number_integer() ? value.get<int64_t>() : -1, content));
    token.special =
        std::find(extras.special_tokens.begin(), extras.special_tokens.end(), content) != extras.special_tokens.end();
    token.normalized = !token.special;
    extras.added_tokens.push_back(std::move(token));
  }
  return ok_status();
}

Status read_special_tokens(const Json& map, TokenizerExtras& extras) {
  for (const auto& [key, value] : map.items()) {
    if (value.is_array()) {
      for (const Json& item : value) {
        if (item.is_string()) extras.special_tokens.push_back(item.get<std::string>());
        if (item.is_object()) {
          TANDEM_ASSIGN(const AddedToken token, read_added_token(item));
          extras.special_tokens.push_back(token.content);
        }
      }
      continue;
    }
    TANDEM_ASSIGN(std::optional<std::string> content, token_content(map, key.c_str()));
    if (content) extras.special_tokens.push_back(*std::move(content));
  }
  return ok_status();
}

}  // namespace

Result<TokenizerExtras> read_tokenizer_extras(const std::filesystem::path& folder) {
  TokenizerExtras extras;
  TANDEM_ASSIGN(const Json config, read_json_file(folder / "tokenizer_config.json"));
  TANDEM_ASSIGN(const Json special_map, read_json_file(folder / "special_tokens_map.json"));
  TANDEM_ASSIGN(const Json added, read_json_file(folder / "added_tokens.json"));
  TANDEM_ASSIGN(const std::optional<std::string> name, json_string(config, "tokenizer_class"));
  extras.tokenizer_class = name.value_or("");
  if (extras.tokenizer_class.ends_with("Fast")) extras.tokenizer_class.resize(extras.tokenizer_class.size() - 4);
  TANDEM_ASSIGN(extras.add_bos_token, json_bool(config, "add_bos_token"));
  TANDEM_ASSIGN(extras.add_eos_token, json_bool(config, "add_eos_token"));
  TANDEM_ASSIGN(extras.add_prefix_space, json_bool(config, "add_prefix_space"));
  for (const auto& [key, token] : {std::pair{"bos_token", &extras.bos_token}, std::pair{"eos_token", &extras.eos_token},
                                   std::pair{"unk_token", &extras.unk_token}}) {
    TANDEM_ASSIGN(*token, token_content(config, key));
    if (!*token) {
      TANDEM_ASSIGN(*token, token_content(special_map, key));
    }
  }
  TANDEM_TRY(read_special_tokens(special_map, extras));
  for (const auto& token : {extras.bos_token, extras.eos_token, extras.unk_token}) {
    if (token) extras.special_tokens.push_back(*token);
  }
  if (const Json* list = json_member(config, "added_tokens_decoder")) {
    TANDEM_TRY(read_added_tokens_decoder(*list, extras));
  }
  TANDEM_TRY(read_added_tokens_file(added, extras));
  std::sort(extras.added_tokens.begin(), extras.added_tokens.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.id < b.id; });
  return extras;
}

Status apply_tokenizer_extras(const TokenizerExtras& extras, TokenizerSpec& spec) {
  std::unordered_map<std::string_view, uint32_t> ids;
  std::unordered_map<uint32_t, std::string_view> names;
  for (const VocabularyEntry& entry : spec.vocabulary) {
    ids[entry.token] = entry.id;
    names[entry.id] = entry.token;
  }
  std::vector<AddedToken> tokens = spec.added_tokens;
  std::unordered_map<std::string, size_t> places;
  for (size_t i = 0; i < tokens.size(); ++i) places[tokens[i].content] = i;
  const auto add = [&](const AddedToken& token) {
    const auto [place, is_new] = places.emplace(token.content, tokens.size());
    if (is_new) {
      tokens.push_back(token);
    } else {
      tokens[place->second] = token;
    }
  };
  for (AddedToken token : extras.added_tokens) {
    if (token.content.empty()) continue;
    if (const auto it = ids.find(token.content); it != ids.end()) token.id = it->second;
    if (const auto it = names.find(token.id); it != names.end() && it->second != token.content) {
      return corrupt("the added token \"{}\" has the id {}, which the vocabulary has for \"{}\"", token.content,
                     token.id, it->second);
    }
    add(token);
  }
  for (const std::string& content : extras.special_tokens) {
    const auto place = places.find(content);
    const auto it = ids.find(content);
    if (content.empty() || (place == places.end() && it == ids.end())) continue;
    AddedToken token = place != places.end() ? tokens[place->second] : AddedToken{content, it->second};
    token.special = true;
    add(token);
  }
  spec.added_tokens = std::move(tokens);
  return ok_status();
}

std::optional<uint32_t> find_token(const TokenizerSpec& spec, std::string_view token) {
  for (const AddedToken& added : spec.added_tokens) {
    if (added.content == token) return added.id;
  }
  for (const VocabularyEntry& entry : spec.vocabulary) {
    if (entry.token == token) return entry.id;
  }
  return std::nullopt;
}

}  // namespace tandem
