#include "tokenizer/import/tokenizer_json.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "tokenizer/import/compile_steps.h"
#include "tokenizer/import/ranked_merges.h"
#include "tokenizer/import/tokenizer_json_steps.h"
#include "tokenizer/normalizer.h"

namespace tandem {
namespace {

Result<uint32_t> read_id(const Json& value, std::string_view token) {
  if (!value.is_number_integer() || value < 0) return corrupt("the token \"{}\" has no valid id", token);
  if (value >= kMaxTokenId) {
    return unsupported("the token \"{}\" has an id of {} or more, which no vocabulary needs", token, kMaxTokenId);
  }
  return value.get<uint32_t>();
}

Status read_vocabulary(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  const Json* vocab = json_member(model, "vocab");
  if (vocab == nullptr || !vocab->is_object()) return corrupt("the tokenizer's model has no \"vocab\" object");
  spec.vocabulary.reserve(vocab->size());
  ids.reserve(vocab->size());
  for (const auto& [token, value] : vocab->items()) {
    if (token.size() > kMaxTokenBytes) return unsupported("the vocabulary has a token of {} bytes", token.size());
    TANDEM_ASSIGN(const uint32_t id, read_id(value, token));
    spec.vocabulary.push_back({token, id});
  }
  for (const VocabularyEntry& entry : spec.vocabulary) ids.emplace(entry.token, entry.id);
  return ok_status();
}

// A list of [token, score], numbered in its order.
Status read_scored_vocabulary(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  const Json* vocab = json_member(model, "vocab");
  if (vocab == nullptr || !vocab->is_array()) return corrupt("the tokenizer's model has no list \"vocab\"");
  if (vocab->size() > kMaxTokenId) return unsupported("the tokenizer has more than {} tokens", kMaxTokenId);
  spec.vocabulary.reserve(vocab->size());
  for (const Json& item : *vocab) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_number()) {
      return corrupt("a token of the vocabulary is not a pair of a string and a score");
    }
    const auto& token = item[0].get_ref<const std::string&>();
    if (token.size() > kMaxTokenBytes) return unsupported("the vocabulary has a token of {} bytes", token.size());
    const double score = item[1].get<double>();
    if (!std::isfinite(score)) return corrupt("the token \"{}\" has a score that is not a number", token);
    spec.vocabulary.push_back({token, static_cast<uint32_t>(spec.vocabulary.size()), score});
  }
  for (const VocabularyEntry& entry : spec.vocabulary) ids[entry.token] = entry.id;
  return ok_status();
}

Status read_merges(const Json& model, TokenizerSpec& spec, const TokenIds& ids) {
  const Json* merges = json_member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return corrupt("the tokenizer's model has no list \"merges\"");
  spec.merges.reserve(merges->size());
  for (const Json& merge : *merges) {
    MergePair pair;
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      if (text.substr(0, 8) == "#version") continue;  // The first line of a merges.txt.
      const auto split = split_merge(text);
      if (!split) return corrupt("the merge \"{}\" is not two tokens with a space between them", text);
      pair = *split;
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      pair = {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
    } else {
      return corrupt("a merge is neither a string nor a pair of strings");
    }
    if (const auto absent = append_merge(pair, ids, spec)) {
      return corrupt("a merge names the token \"{}\", which is not in the vocabulary", *absent);
    }
  }
  return ok_status();
}

Status read_bpe(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  TANDEM_ASSIGN(const std::optional<double> dropout, json_number(model, "dropout"));
  if (dropout.value_or(0) != 0) return unsupported("a tokenizer with dropout is not supported; set it to null");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TANDEM_ASSIGN(const std::optional<std::string> text, json_string(model, key));
    if (!text.value_or("").empty()) return unsupported("a tokenizer with a {} is not supported", key);
  }
  TANDEM_ASSIGN(spec.ignore_merges, json_flag(model, "ignore_merges", false));
  TANDEM_ASSIGN(spec.fuse_unk, json_flag(model, "fuse_unk", false));
  TANDEM_TRY(read_vocabulary(model, spec, ids));
  TANDEM_TRY(read_merges(model, spec, ids));
  TANDEM_ASSIGN(const std::optional<std::string> unk, json_string(model, "unk_token"));
  if (unk) {
    spec.has_unk = true;
    if (const auto it = ids.find(*unk); it != ids.end()) spec.unk_id = it->second;
  }
  return ok_status();
}

Status read_unigram(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  spec.fuse_unk = true;
  TANDEM_TRY(read_scored_vocabulary(model, spec, ids));
  TANDEM_ASSIGN(const std::optional<int64_t> unk, json_int(model, "unk_id"));
  if (!unk) return ok_status();
  if (*unk < 0 || static_cast<uint64_t>(*unk) >= spec.vocabulary.size()) {
    return corrupt("the tokenizer's unk_id {} is not in its vocabulary", *unk);
  }
  spec.has_unk = true;
  spec.unk_id = static_cast<uint32_t>(*unk);
  return ok_status();
}

Status read_model(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  TANDEM_ASSIGN(spec.byte_fallback, json_flag(model, "byte_fallback", false));
  TANDEM_ASSIGN(std::optional<std::string> type, json_string(model, "type"));
  // Files older than the "type" key.
  if (!type) type = json_member(model, "merges") != nullptr ? "BPE" : "";
  if (*type == "BPE") return read_bpe(model, spec, ids);
  if (*type == "Unigram") {
    spec.model = ModelKind::kUnigram;
    return read_unigram(model, spec, ids);
  }
  return unsupported("the tokenizer's model type \"{}\" is not supported", *type);
}

// An added token that is in the model's vocabulary keeps that id; the others are numbered from the vocabulary's size
// on, in the order of the list. The library does the same: the "id" written in the list is not used.
Status read_added_tokens(const Json* list, TokenizerSpec& spec, const TokenIds& ids) {
  if (list == nullptr) return ok_status();
  if (!list->is_array()) return corrupt("the tokenizer's \"added_tokens\" is not a list");
  std::unordered_map<std::string, size_t> places;
  std::unordered_set<std::string> special;
  auto next_id = static_cast<uint32_t>(std::min<size_t>(spec.vocabulary.size(), kMaxTokenId));
  for (const Json& item : *list) {
    TANDEM_ASSIGN(AddedToken token, read_added_token(item));
    if (token.content.empty()) continue;
    if (token.special) special.insert(token.content);
    const auto [place, is_new] = places.emplace(token.content, spec.added_tokens.size());
    if (!is_new) {
      token.id = spec.added_tokens[place->second].id;
      spec.added_tokens[place->second] = std::move(token);
      continue;
    }
    const auto it = ids.find(token.content);
    token.id = it != ids.end() ? it->second : next_id++;
    if (token.id >= kMaxTokenId) return unsupported("the tokenizer has more than {} tokens", kMaxTokenId);
    spec.added_tokens.push_back(std::move(token));
  }
  // Once special, always special, even if the token is listed again without the flag. Decoding looks the token up by
  // its normalized form.
  TANDEM_ASSIGN(const auto steps, compile_steps(std::span<const NormalizerStep>(spec.normalizers)));
  TANDEM_ASSIGN(const Normalizer normalizer, Normalizer::create(steps));
  for (AddedToken& token : spec.added_tokens) {
    std::string decoded = token.content;
    if (token.normalized) {
      WorkBudget budget(token.content.size());
      TANDEM_ASSIGN(decoded, normalizer.normalize(token.content, budget));
    }
    token.special = special.count(decoded) > 0;
  }
  return ok_status();
}

Status read_template(const Json& object, TokenizerSpec& spec) {
  const Json* single = json_member(object, "single");
  const Json* special_tokens = json_member(object, "special_tokens");
  if (single == nullptr || !single->is_array()) return corrupt("the tokenizer's TemplateProcessing has no \"single\"");
  std::vector<uint32_t> before;
  std::vector<uint32_t> after;
  bool seen_text = false;
  for (const Json& piece : *single) {
    if (const Json* text = json_member(piece, "Sequence"); text != nullptr) {
      if (seen_text) return unsupported("a TemplateProcessing that has the text twice is not supported");
      seen_text = true;
      continue;
    }
    const Json* token = json_member(piece, "SpecialToken");
    if (token == nullptr) return corrupt("a piece of the tokenizer's TemplateProcessing has no known type");
    TANDEM_ASSIGN(const std::optional<std::string> name, json_string(*token, "id"));
    const Json* known = special_tokens == nullptr ? nullptr : json_member(*special_tokens, name.value_or("").c_str());
    const Json* list = known == nullptr ? nullptr : json_member(*known, "ids");
    if (list == nullptr || !list->is_array() || list->size() > kMaxTokenizerSteps) {
      return corrupt("the tokenizer's TemplateProcessing uses the token \"{}\" but does not give its ids",
                     name.value_or(""));
    }
    for (const Json& value : *list) {
      TANDEM_ASSIGN(const uint32_t id, read_id(value, name.value_or("")));
      (seen_text ? after : before).push_back(id);
    }
  }
  if (!seen_text) return unsupported("a TemplateProcessing without the text in it is not supported");
  if (before.size() + after.size() > kMaxTokenizerSteps) {
    return unsupported("the tokenizer's TemplateProcessing adds too much");
  }
  spec.prefix = std::move(before);
  spec.suffix = std::move(after);
  return ok_status();
}

Status read_post_processor(const Json& object, TokenizerSpec& spec) {
  bool seen_template = false;
  return for_each_step(object, "post-processor", "processors",
                       [&](const Json& step, const std::string& type) -> Status {
                         if (type == "ByteLevel") return ok_status();  // It changes offsets, not ids.
                         if (type != "TemplateProcessing") {
                           return unsupported("the tokenizer's post-processor \"{}\" is not supported", type);
                         }
                         if (seen_template)
                           return unsupported("a tokenizer with two TemplateProcessings is not supported");
                         seen_template = true;
                         return read_template(step, spec);
                       });
}

}  // namespace

Result<AddedToken> read_added_token(const Json& item) {
  AddedToken token;
  TANDEM_ASSIGN(std::optional<std::string> content, json_string(item, "content"));
  if (!content) return corrupt("an added token of the tokenizer has no \"content\"");
  if (content->size() > kMaxAddedTokenBytes) {
    return unsupported("an added token of {} bytes is longer than supported ({} at most)", content->size(),
                       kMaxAddedTokenBytes);
  }
  TANDEM_ASSIGN(token.single_word, json_flag(item, "single_word", false));
  TANDEM_ASSIGN(token.lstrip, json_flag(item, "lstrip", false));
  TANDEM_ASSIGN(token.rstrip, json_flag(item, "rstrip", false));
  TANDEM_ASSIGN(token.special, json_flag(item, "special", false));
  TANDEM_ASSIGN(token.normalized, json_flag(item, "normalized", !token.special));
  token.content = *std::move(content);
  return token;
}

Result<TokenizerSpec> read_tokenizer_json(const Json& json) {
  if (!json.is_object()) return corrupt("tokenizer.json is not a JSON object");
  TANDEM_ASSIGN(const std::optional<std::string> version, json_string(json, "version"));
  if (version.value_or("1.0") != "1.0") {
    return unsupported("tokenizer.json has version \"{}\"; only \"1.0\" is known", *version);
  }
  // "truncation" and "padding" are ignored on purpose, as in transformers: they belong to a call, not to a text.
  TokenizerSpec spec;
  const Json* model = json_member(json, "model");
  if (model == nullptr || !model->is_object()) return corrupt("tokenizer.json has no \"model\" object");
  if (const Json* object = json_member(json, "normalizer")) TANDEM_TRY(read_normalizer(*object, spec));
  if (const Json* object = json_member(json, "pre_tokenizer")) TANDEM_TRY(read_pre_tokenizer(*object, spec));
  if (const Json* object = json_member(json, "decoder")) TANDEM_TRY(read_decoder(*object, spec));
  TokenIds ids;
  TANDEM_TRY(read_model(*model, spec, ids));
  TANDEM_TRY(read_added_tokens(json_member(json, "added_tokens"), spec, ids));
  if (const Json* object = json_member(json, "post_processor")) TANDEM_TRY(read_post_processor(*object, spec));
  return spec;
}

}  // namespace tandem
