#include "checkpoint/gguf/vocabulary_json.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

constexpr size_t kMaxTokens = 10'000'000;
// Looking for the two parts of a piece takes the square of its length. Real vocabularies come to some 10 million.
constexpr uint64_t kMaxWork = 2'000'000'000;
constexpr size_t kMaxTokenBytes = 1024;  // The longest in use are runs of some hundred spaces.

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0u) == 0x80u; }

// Unicode's table of well-formed UTF-8.
bool is_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<uint8_t>(text[i + k]) : uint8_t{0}; };
    const uint8_t lead = byte(0);
    const auto tail = [&](size_t k) { return (byte(k) & 0xc0u) == 0x80u; };
    if (lead < 0x80) {
      i += 1;
    } else if (lead >= 0xc2 && lead <= 0xdf && tail(1)) {
      i += 2;
    } else if (lead >= 0xe0 && lead <= 0xef && tail(1) && tail(2) && (lead != 0xe0 || byte(1) >= 0xa0) &&
               (lead != 0xed || byte(1) < 0xa0)) {
      i += 3;
    } else if (lead >= 0xf0 && lead <= 0xf4 && tail(1) && tail(2) && tail(3) && (lead != 0xf0 || byte(1) >= 0x90) &&
               (lead != 0xf4 || byte(1) < 0x90)) {
      i += 4;
    } else {
      return false;
    }
  }
  return true;
}

void append_string(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<uint8_t>(c) < 0x20) {
      append_format(out, "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

Status check_tokens(const Vocabulary& vocabulary, std::string_view what) {
  const size_t count = vocabulary.tokens.size();
  if (count == 0) return corrupt("{}: the vocabulary is empty", what);
  if (count > kMaxTokens) return corrupt("{}: a vocabulary of {} tokens is more than any model has", what, count);
  if (vocabulary.kinds.size() != count) {
    return corrupt("{}: {} tokens have {} types", what, count, vocabulary.kinds.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string_view token = vocabulary.tokens[i];
    if (token.size() > kMaxTokenBytes) {
      return corrupt("{}: token {} has {} bytes, more than any vocabulary's", what, i, token.size());
    }
    if (!is_utf8(token)) return corrupt("{}: token {} (\"{}\") is not UTF-8", what, i, printable_name(token));
  }
  for (const auto& id : {vocabulary.bos, vocabulary.eos}) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return corrupt("{}: token {} is to be put around texts, but there are {} tokens", what, *id, count);
    }
  }
  return ok_status();
}

// Tokens to ids, of those that `keep` says yes to.
template <typename Keep>
Result<std::unordered_map<std::string_view, uint32_t>> index_tokens(const Vocabulary& vocabulary, std::string_view what,
                                                                    Keep&& keep) {
  std::unordered_map<std::string_view, uint32_t> ids;
  ids.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!keep(vocabulary.kinds[i])) continue;
    const auto [place, is_new] = ids.emplace(vocabulary.tokens[i], static_cast<uint32_t>(i));
    if (!is_new) {
      return unsupported("{}: tokens {} and {} are the same (\"{}\")", what, place->second, i,
                         printable_name(vocabulary.tokens[i]));
    }
  }
  return ids;
}

bool is_added(TokenKind kind) {
  return kind == TokenKind::kUnknown || kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
}

void append_added_tokens(std::string& out, const Vocabulary& vocabulary) {
  out += "\"added_tokens\":[";
  bool first = true;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!is_added(vocabulary.kinds[i]) || vocabulary.tokens[i].empty()) continue;
    append_format(out, "{}{{\"id\":{},\"content\":", first ? "" : ",", i);
    append_string(out, vocabulary.tokens[i]);
    append_format(out, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":{}}}",
                  vocabulary.kinds[i] != TokenKind::kUserDefined);
    first = false;
  }
  out += "],";
}

// Puts bos and eos around a text; null where there are none.
Json post_processor(const Vocabulary& vocabulary) {
  if (!vocabulary.bos && !vocabulary.eos) return nullptr;
  Json single = Json::array(), pair = Json::array(), special = Json::object();
  const auto add_token = [&](const std::optional<int64_t>& id, Json& list, int type) {
    if (!id) return;
    const std::string text(vocabulary.tokens[static_cast<size_t>(*id)]);
    list.push_back({{"SpecialToken", {{"id", text}, {"type_id", type}}}});
    special[text] = {{"id", text}, {"ids", {*id}}, {"tokens", {text}}};
  };
  const auto add_text = [&](const char* name, Json& list, int type) {
    list.push_back({{"Sequence", {{"id", name}, {"type_id", type}}}});
  };
  add_token(vocabulary.bos, single, 0);
  add_text("A", single, 0);
  add_token(vocabulary.eos, single, 0);
  add_token(vocabulary.bos, pair, 0);
  add_text("A", pair, 0);
  add_token(vocabulary.eos, pair, 0);
  add_token(vocabulary.bos, pair, 1);
  add_text("B", pair, 1);
  add_token(vocabulary.eos, pair, 1);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

template <typename Keep>
void append_vocab(std::string& out, const Vocabulary& vocabulary, Keep&& keep) {
  out += "\"vocab\":{";
  bool first = true;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!keep(vocabulary.kinds[i])) continue;
    if (!first) out += ',';
    append_string(out, vocabulary.tokens[i]);
    append_format(out, ":{}", i);
    first = false;
  }
  out += "},";
}

void append_member(std::string& out, const char* key, const Json& value) {
  append_format(out, "\"{}\":{},", key, value.dump());
}

// A piece that is two others, one after the other.
struct Merge {
  float score;
  uint32_t left_length, right_length;  // In characters.
  uint32_t left, right;
};

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

// All ways to make a piece of two; of each piece by the parts' ids, then all by score and the parts' lengths, the
// highest first. The sort keeps the order of equals.
std::vector<Merge> find_merges(const Vocabulary& vocabulary,
                               const std::unordered_map<std::string_view, uint32_t>& ids) {
  std::vector<Merge> merges;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (vocabulary.kinds[i] != TokenKind::kNormal && vocabulary.kinds[i] != TokenKind::kUserDefined) continue;
    const std::string_view token = vocabulary.tokens[i];
    const auto own = static_cast<std::ptrdiff_t>(merges.size());
    for (size_t at = 1; at < token.size(); ++at) {
      if (is_continuation(token[at])) continue;
      const auto left = ids.find(token.substr(0, at)), right = ids.find(token.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      merges.push_back({vocabulary.scores[i], static_cast<uint32_t>(count_characters(left->first)),
                        static_cast<uint32_t>(count_characters(right->first)), left->second, right->second});
    }
    std::sort(merges.begin() + own, merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_length, a.right_length) > std::tuple(b.score, b.left_length, b.right_length);
  });
  return merges;
}

Json split(const char* pattern) {
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// How texts are cut before merging, by the names that GGUF files use.
struct PreTokenizer {
  Json steps;  // Before ByteLevel.
  bool use_regex = false;
  bool nfc = false;
  bool ignore_merges = false;
};

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view pre) {
  PreTokenizer found{.steps = Json::array()};
  if (pre == "gpt-2" || pre == "phi-2") {
    found.use_regex = true;
  } else if (pre == "smollm" || pre == "starcoder" || pre == "refact") {
    found.steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
    found.use_regex = true;
  } else if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    found.steps.push_back(split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"));
    found.ignore_merges = true;
  } else if (pre == "qwen2" || pre == "deepseek-r1-qwen") {
    found.steps.push_back(split(R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"));
    found.nfc = true;
  } else {
    return std::nullopt;
  }
  return found;
}

}  // namespace

Result<std::string> sentencepiece_json(const Vocabulary& vocabulary, std::string_view what) {
  TANDEM_TRY(check_tokens(vocabulary, what));
  if (vocabulary.scores.size() != vocabulary.tokens.size()) {
    return corrupt("{}: {} tokens have {} scores", what, vocabulary.tokens.size(), vocabulary.scores.size());
  }
  if (!std::all_of(vocabulary.scores.begin(), vocabulary.scores.end(), [](float s) { return std::isfinite(s); })) {
    return corrupt("{}: a token's score is not a number", what);
  }
  uint64_t work = 0;
  for (const std::string_view token : vocabulary.tokens) work += uint64_t{token.size()} * token.size();
  if (work > kMaxWork) return unsupported("{}: the vocabulary has too many long tokens", what);
  const auto keep = [](TokenKind) { return true; };
  TANDEM_ASSIGN(const auto ids, index_tokens(vocabulary, what, keep));
  const auto unknown = std::ranges::find(vocabulary.kinds, TokenKind::kUnknown);
  const bool has_bytes = std::ranges::find(vocabulary.kinds, TokenKind::kByte) != vocabulary.kinds.end();

  Json normalizers = Json::array(), decoders = Json::array();
  if (vocabulary.add_space_prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", "▁"}});
  normalizers.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}});
  decoders.push_back({{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}});
  if (has_bytes) decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (vocabulary.add_space_prefix) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }

  std::string out = "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,";
  append_added_tokens(out, vocabulary);
  append_member(out, "normalizer", {{"type", "Sequence"}, {"normalizers", normalizers}});
  append_member(out, "pre_tokenizer", nullptr);
  append_member(out, "post_processor", post_processor(vocabulary));
  append_member(out, "decoder", {{"type", "Sequence"}, {"decoders", decoders}});
  out += "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":";
  if (unknown != vocabulary.kinds.end()) {
    append_string(out, vocabulary.tokens[static_cast<size_t>(unknown - vocabulary.kinds.begin())]);
  } else {
    out += "null";
  }
  out += ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,\"fuse_unk\":true,";
  append_format(out, "\"byte_fallback\":{},\"ignore_merges\":false,", has_bytes);
  append_vocab(out, vocabulary, keep);
  out += "\"merges\":[";
  bool first = true;
  for (const Merge& merge : find_merges(vocabulary, ids)) {
    out += first ? "[" : ",[";
    append_string(out, vocabulary.tokens[merge.left]);
    out += ',';
    append_string(out, vocabulary.tokens[merge.right]);
    out += ']';
    first = false;
  }
  return out + "]}}";
}

Result<std::string> byte_level_json(const Vocabulary& vocabulary, std::string_view what) {
  TANDEM_TRY(check_tokens(vocabulary, what));
  const auto pre = find_pre_tokenizer(vocabulary.pre);
  if (!pre) {
    return unsupported(
        "{}: texts are split as \"{}\" says (tokenizer.ggml.pre), which is not supported (gpt-2, llama-bpe, qwen2 and "
        "smollm are)",
        what, printable_name(vocabulary.pre));
  }
  // Added tokens are matched in texts as they are, so they have no place among the stand-ins for bytes; unused ones
  // only fill a gap in the numbers.
  const auto keep = [](TokenKind kind) { return kind == TokenKind::kNormal || kind == TokenKind::kByte; };
  TANDEM_TRY(index_tokens(vocabulary, what, keep).status());

  Json steps = pre->steps;
  steps.push_back(
      {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", pre->use_regex}});
  const Json byte_level = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const Json around = post_processor(vocabulary);

  std::string out = "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,";
  append_added_tokens(out, vocabulary);
  append_member(out, "normalizer", pre->nfc ? Json{{"type", "NFC"}} : Json());
  append_member(out, "pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", steps}});
  append_member(out, "post_processor", around.is_null() ? byte_level : around);
  append_member(out, "decoder", byte_level);
  out += "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":null,\"continuing_subword_prefix\":null,";
  append_format(out, "\"end_of_word_suffix\":null,\"fuse_unk\":false,\"byte_fallback\":false,\"ignore_merges\":{},",
                pre->ignore_merges);
  append_vocab(out, vocabulary, keep);
  out += "\"merges\":[";
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    if (!is_utf8(vocabulary.merges[i])) return corrupt("{}: merge {} is not UTF-8", what, i);
    if (i > 0) out += ',';
    append_string(out, vocabulary.merges[i]);
  }
  return out + "]}}";
}

}  // namespace tandem
