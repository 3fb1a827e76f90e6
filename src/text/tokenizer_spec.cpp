#include "text/tokenizer_spec.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "base/error.h"
#include "text/unicode.h"

namespace tandem {
namespace {

// The pattern of ByteLevel(use_regex), which is not in the file; GPT-2's.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// An added token is compared byte by byte at every place of a text where it could begin.
constexpr size_t kMaxAddedTokenBytes = 1024;
constexpr size_t kMaxTokenBytes = 1 << 20;
constexpr size_t kMaxSteps = 64;

using TokenIds = std::unordered_map<std::string_view, uint32_t>;

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

Result<bool> flag(const Json& object, const char* key, bool fallback) {
  TANDEM_ASSIGN(const std::optional<bool> value, json_bool(object, key));
  return value.value_or(fallback);
}

Result<std::string> type_of(const Json& object, std::string_view what) {
  if (!object.is_object()) return corrupt("the tokenizer's {} is not an object", what);
  TANDEM_ASSIGN(std::optional<std::string> type, json_string(object, "type"));
  if (!type) return corrupt("the tokenizer's {} has no \"type\"", what);
  return *std::move(type);
}

// Calls visit(step, type) for the object, or for each member of a Sequence, in order.
template <typename Visit>
Status for_each_step(const Json& object, std::string_view what, const char* list_key, Visit&& visit) {
  TANDEM_ASSIGN(const std::string type, type_of(object, what));
  if (type != "Sequence") return visit(object, type);
  const Json* list = member(object, list_key);
  if (list == nullptr || !list->is_array()) {
    return corrupt("the tokenizer's {} is a Sequence without a list \"{}\"", what, list_key);
  }
  if (list->size() > kMaxSteps) return unsupported("the tokenizer's {} has more than {} steps", what, kMaxSteps);
  for (const Json& step : *list) TANDEM_TRY(for_each_step(step, what, list_key, visit));
  return ok_status();
}

Status read_normalizer(const Json& object, TokenizerSpec& spec) {
  return for_each_step(object, "normalizer", "normalizers", [&](const Json&, const std::string& type) -> Status {
    if (type != "NFC") return unsupported("the tokenizer's normalizer \"{}\" is not supported yet", type);
    spec.normalizers.push_back(NormalizerKind::kNfc);
    if (spec.normalizers.size() > kMaxSteps) return unsupported("the tokenizer has too many normalizers");
    return ok_status();
  });
}

Result<SplitBehavior> read_behavior(const Json& step) {
  TANDEM_ASSIGN(const std::optional<std::string> name, json_string(step, "behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return unsupported("the tokenizer's Split has the unknown behavior \"{}\"", name.value_or(""));
}

Result<PreTokenizerStep> read_split(const Json& object) {
  PreTokenizerStep step;
  TANDEM_ASSIGN(step.behavior, read_behavior(object));
  TANDEM_ASSIGN(step.invert, flag(object, "invert", false));
  const Json* pattern = member(object, "pattern");
  if (pattern == nullptr) return corrupt("the tokenizer's Split has no \"pattern\"");
  TANDEM_ASSIGN(std::optional<std::string> regex, json_string(*pattern, "Regex"));
  if (regex) {
    step.kind = PreTokenizerKind::kSplitRegex;
    step.pattern = *std::move(regex);
    return step;
  }
  TANDEM_ASSIGN(std::optional<std::string> literal, json_string(*pattern, "String"));
  if (!literal) return corrupt("the tokenizer's Split has neither a \"Regex\" nor a \"String\" pattern");
  step.kind = PreTokenizerKind::kSplitLiteral;
  step.pattern = *std::move(literal);
  return step;
}

Status read_pre_tokenizer(const Json& object, TokenizerSpec& spec) {
  bool byte_level = false;
  TANDEM_TRY(
      for_each_step(object, "pre-tokenizer", "pretokenizers", [&](const Json& step, const std::string& type) -> Status {
        if (byte_level) {
          return unsupported("the tokenizer's pre-tokenizer \"{}\" comes after ByteLevel, which must be the last",
                             type);
        }
        if (spec.pre_tokenizers.size() > kMaxSteps) return unsupported("the tokenizer has too many pre-tokenizers");
        if (type == "Split") {
          TANDEM_ASSIGN(PreTokenizerStep split, read_split(step));
          spec.pre_tokenizers.push_back(std::move(split));
        } else if (type == "Digits") {
          TANDEM_ASSIGN(const bool individual, flag(step, "individual_digits", false));
          const auto behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous;
          spec.pre_tokenizers.push_back({PreTokenizerKind::kDigits, behavior, false, ""});
        } else if (type == "ByteLevel") {
          byte_level = true;
          TANDEM_ASSIGN(const bool prefix, flag(step, "add_prefix_space", true));
          TANDEM_ASSIGN(const bool use_regex, flag(step, "use_regex", true));
          if (prefix) {
            spec.pre_tokenizers.push_back({PreTokenizerKind::kAddPrefixSpace, SplitBehavior::kIsolated, false, ""});
          }
          if (use_regex) {
            spec.pre_tokenizers.push_back(
                {PreTokenizerKind::kSplitRegex, SplitBehavior::kIsolated, false, std::string(kGpt2Pattern)});
          }
        } else {
          return unsupported("the tokenizer's pre-tokenizer \"{}\" is not supported yet", type);
        }
        return ok_status();
      }));
  if (!byte_level) return unsupported("a tokenizer without a ByteLevel pre-tokenizer is not supported yet");
  return ok_status();
}

Status read_decoder(const Json* object) {
  if (object == nullptr) {
    return unsupported("a tokenizer without a decoder is not supported; byte-level tokenizers have ByteLevel there");
  }
  int steps = 0;
  TANDEM_TRY(for_each_step(*object, "decoder", "decoders", [&](const Json&, const std::string& type) -> Status {
    if (type != "ByteLevel") return unsupported("the tokenizer's decoder \"{}\" is not supported yet", type);
    ++steps;
    return ok_status();
  }));
  if (steps != 1) return unsupported("a tokenizer whose decoder is not one ByteLevel step is not supported yet");
  return ok_status();
}

Result<uint32_t> read_id(const Json& value, std::string_view token) {
  if (!value.is_number_integer() || value < 0) return corrupt("the token \"{}\" has no valid id", token);
  if (value >= kMaxTokenId) {
    return unsupported("the token \"{}\" has an id of {} or more, which no vocabulary needs", token, kMaxTokenId);
  }
  return value.get<uint32_t>();
}

Status read_vocabulary(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  const Json* vocab = member(model, "vocab");
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

Status read_merges(const Json& model, TokenizerSpec& spec, const TokenIds& ids) {
  const Json* merges = member(model, "merges");
  if (merges == nullptr || !merges->is_array()) return corrupt("the tokenizer's model has no list \"merges\"");
  const auto id_of = [&](std::string_view token) -> Result<uint32_t> {
    const auto it = ids.find(token);
    if (it == ids.end()) return corrupt("a merge names the token \"{}\", which is not in the vocabulary", token);
    return it->second;
  };
  spec.merges.reserve(merges->size());
  std::string joined;
  for (const Json& merge : *merges) {
    std::string_view left;
    std::string_view right;
    if (merge.is_string()) {
      const std::string_view text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
        return corrupt("the merge \"{}\" is not two tokens with a space between them", text);
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get_ref<const std::string&>();
      right = merge[1].get_ref<const std::string&>();
    } else {
      return corrupt("a merge is neither a string nor a pair of strings");
    }
    joined.assign(left).append(right);
    BpeMerge ranked{};
    TANDEM_ASSIGN(ranked.left, id_of(left));
    TANDEM_ASSIGN(ranked.right, id_of(right));
    TANDEM_ASSIGN(ranked.merged, id_of(joined));
    spec.merges.push_back(ranked);
  }
  return ok_status();
}

Status read_model(const Json& model, TokenizerSpec& spec, TokenIds& ids) {
  TANDEM_ASSIGN(const bool byte_fallback, flag(model, "byte_fallback", false));
  if (byte_fallback) return unsupported("a tokenizer with byte_fallback is not supported yet");
  TANDEM_ASSIGN(const std::optional<double> dropout, json_number(model, "dropout"));
  if (dropout.value_or(0) != 0) return unsupported("a tokenizer with dropout is not supported; set it to null");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    TANDEM_ASSIGN(const std::optional<std::string> text, json_string(model, key));
    if (!text.value_or("").empty()) return unsupported("a tokenizer with a {} is not supported yet", key);
  }
  TANDEM_ASSIGN(spec.ignore_merges, flag(model, "ignore_merges", false));
  TANDEM_ASSIGN(spec.fuse_unk, flag(model, "fuse_unk", false));
  TANDEM_TRY(read_vocabulary(model, spec, ids));
  TANDEM_TRY(read_merges(model, spec, ids));
  TANDEM_ASSIGN(const std::optional<std::string> unk, json_string(model, "unk_token"));
  if (unk) {
    spec.has_unk = true;
    if (const auto it = ids.find(*unk); it != ids.end()) spec.unk_id = it->second;
  }
  return ok_status();
}

// An added token that the model's vocabulary has keeps that id; the others are numbered on from the vocabulary's size,
// in the order of the list. That is what the library does: the "id" written in the list is not used.
Status read_added_tokens(const Json* list, TokenizerSpec& spec, const TokenIds& ids) {
  if (list == nullptr) return ok_status();
  if (!list->is_array()) return corrupt("the tokenizer's \"added_tokens\" is not a list");
  std::unordered_map<std::string, size_t> places;
  std::unordered_set<std::string> special;
  auto next_id = static_cast<uint32_t>(std::min<size_t>(spec.vocabulary.size(), kMaxTokenId));
  for (const Json& item : *list) {
    TANDEM_ASSIGN(std::optional<std::string> content, json_string(item, "content"));
    if (!content) return corrupt("an added token of the tokenizer has no \"content\"");
    if (content->empty()) continue;
    if (content->size() > kMaxAddedTokenBytes) {
      return unsupported("an added token of {} bytes is longer than supported ({} at most)", content->size(),
                         kMaxAddedTokenBytes);
    }
    AddedToken token;
    TANDEM_ASSIGN(token.single_word, flag(item, "single_word", false));
    TANDEM_ASSIGN(token.lstrip, flag(item, "lstrip", false));
    TANDEM_ASSIGN(token.rstrip, flag(item, "rstrip", false));
    TANDEM_ASSIGN(token.special, flag(item, "special", false));
    TANDEM_ASSIGN(token.normalized, flag(item, "normalized", !token.special));
    token.content = *std::move(content);
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
  for (AddedToken& token : spec.added_tokens) {
    token.special = special.count(token.normalized ? normalize(spec.normalizers, token.content) : token.content) > 0;
  }
  return ok_status();
}

Status read_template(const Json& object, TokenizerSpec& spec) {
  const Json* single = member(object, "single");
  const Json* special_tokens = member(object, "special_tokens");
  if (single == nullptr || !single->is_array()) return corrupt("the tokenizer's TemplateProcessing has no \"single\"");
  std::vector<uint32_t> before;
  std::vector<uint32_t> after;
  bool seen_text = false;
  for (const Json& piece : *single) {
    if (const Json* text = member(piece, "Sequence"); text != nullptr) {
      if (seen_text) return unsupported("a TemplateProcessing that has the text twice is not supported");
      seen_text = true;
      continue;
    }
    const Json* token = member(piece, "SpecialToken");
    if (token == nullptr) return corrupt("a piece of the tokenizer's TemplateProcessing has no known type");
    TANDEM_ASSIGN(const std::optional<std::string> name, json_string(*token, "id"));
    const Json* known = special_tokens == nullptr ? nullptr : member(*special_tokens, name.value_or("").c_str());
    const Json* list = known == nullptr ? nullptr : member(*known, "ids");
    if (list == nullptr || !list->is_array() || list->size() > kMaxSteps) {
      return corrupt("the tokenizer's TemplateProcessing uses the token \"{}\" but does not give its ids",
                     name.value_or(""));
    }
    for (const Json& value : *list) {
      TANDEM_ASSIGN(const uint32_t id, read_id(value, name.value_or("")));
      (seen_text ? after : before).push_back(id);
    }
  }
  if (!seen_text) return unsupported("a TemplateProcessing without the text in it is not supported");
  if (before.size() + after.size() > kMaxSteps) return unsupported("the tokenizer's TemplateProcessing adds too much");
  spec.prefix = std::move(before);
  spec.suffix = std::move(after);
  return ok_status();
}

Status read_post_processor(const Json& object, TokenizerSpec& spec) {
  bool seen_template = false;
  return for_each_step(object, "post-processor", "processors",
                       [&](const Json& step, const std::string& type) -> Status {
                         if (type == "ByteLevel") return ok_status();  // It changes offsets, not ids.
                         if (type == "TemplateProcessing" && !seen_template) {
                           seen_template = true;
                           return read_template(step, spec);
                         }
                         return unsupported("the tokenizer's post-processor \"{}\" is not supported yet", type);
                       });
}

}  // namespace

std::string normalize(const std::vector<NormalizerKind>& normalizers, std::string_view text) {
  // NFC of NFC is NFC.
  return normalizers.empty() || is_trivially_nfc(text) ? std::string(text) : nfc(text);
}

Result<TokenizerSpec> read_tokenizer_spec(const Json& json) {
  if (!json.is_object()) return corrupt("tokenizer.json is not a JSON object");
  TANDEM_ASSIGN(const std::optional<std::string> version, json_string(json, "version"));
  if (version.value_or("1.0") != "1.0") {
    return unsupported("tokenizer.json has version \"{}\"; only \"1.0\" is known", *version);
  }
  // "truncation" and "padding" are left aside on purpose, as transformers does: they belong to a call, not to a text.
  TokenizerSpec spec;
  const Json* model = member(json, "model");
  if (model == nullptr || !model->is_object()) return corrupt("tokenizer.json has no \"model\" object");
  // Files older than the "type" key have BPE models only.
  TANDEM_ASSIGN(const std::optional<std::string> model_type, json_string(*model, "type"));
  if (model_type.value_or("BPE") != "BPE") {
    return unsupported("the tokenizer's model type \"{}\" is not supported yet", *model_type);
  }
  if (const Json* object = member(json, "normalizer")) TANDEM_TRY(read_normalizer(*object, spec));
  const Json* pre_tokenizer = member(json, "pre_tokenizer");
  if (pre_tokenizer == nullptr) {
    return unsupported("a tokenizer without a ByteLevel pre-tokenizer is not supported yet");
  }
  TANDEM_TRY(read_pre_tokenizer(*pre_tokenizer, spec));
  TANDEM_TRY(read_decoder(member(json, "decoder")));
  TokenIds ids;
  TANDEM_TRY(read_model(*model, spec, ids));
  TANDEM_TRY(read_added_tokens(member(json, "added_tokens"), spec, ids));
  if (const Json* object = member(json, "post_processor")) TANDEM_TRY(read_post_processor(*object, spec));
  return spec;
}

}  // namespace tandem
