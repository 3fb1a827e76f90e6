#include "checkpoint/gguf/gguf_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "base/error.h"
#include "checkpoint/hub/safetensors.h"
#include "tokenizer/import/ranked_merges.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr size_t kMaxTokens = 10'000'000;
// Finding the two parts of a piece takes time quadratic in its length. Real vocabularies need about 10 million steps.
constexpr uint64_t kMaxWork = 2'000'000'000;
constexpr size_t kMaxGgufTokenBytes = 1024;  // The longest in use are runs of about a hundred spaces.

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0u) == 0x80u; }

Status check_tokens(const Vocabulary& vocabulary, std::string_view what) {
  const size_t count = vocabulary.tokens.size();
  if (count == 0) return corrupt("{}: the vocabulary is empty", what);
  if (count > kMaxTokens) return corrupt("{}: a vocabulary of {} tokens is more than any model has", what, count);
  if (count > kMaxTokenId) return unsupported("{}: the vocabulary has more than {} tokens", what, kMaxTokenId);
  if (vocabulary.kinds.size() != count) {
    return corrupt("{}: {} tokens have {} types", what, count, vocabulary.kinds.size());
  }
  for (size_t i = 0; i < count; ++i) {
    const std::string_view token = vocabulary.tokens[i];
    if (token.size() > kMaxGgufTokenBytes) {
      return corrupt("{}: token {} has {} bytes, more than any vocabulary's", what, i, token.size());
    }
    if (!is_valid_utf8(token)) return corrupt("{}: token {} (\"{}\") is not UTF-8", what, i, printable_name(token));
  }
  for (const auto& id : {vocabulary.bos, vocabulary.eos}) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return corrupt("{}: token {} is to be put around texts, but there are {} tokens", what, *id, count);
    }
  }
  return ok_status();
}

// Maps the tokens that `keep` accepts to ids.
template <typename Keep>
Result<TokenIds> index_tokens(const Vocabulary& vocabulary, std::string_view what, Keep&& keep) {
  TokenIds ids;
  ids.reserve(vocabulary.tokens.size());
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    if (!keep(vocabulary.kinds[i])) continue;
    const auto [found, is_new] = ids.emplace(vocabulary.tokens[i], static_cast<uint32_t>(i));
    if (!is_new) {
      return unsupported("{}: tokens {} and {} are the same (\"{}\")", what, found->second, i,
                         printable_name(vocabulary.tokens[i]));
    }
  }
  return ids;
}

bool is_added(TokenKind kind) {
  return kind == TokenKind::kUnknown || kind == TokenKind::kControl || kind == TokenKind::kUserDefined;
}

// Added tokens are matched literally. Of two with the same name the first one's id counts; once special, always
// special.
void add_added_tokens(const Vocabulary& vocabulary, const TokenIds& ids, TokenizerSpec& spec) {
  std::unordered_map<std::string_view, size_t> indices;
  for (size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const std::string_view content = vocabulary.tokens[i];
    if (!is_added(vocabulary.kinds[i]) || content.empty()) continue;
    const bool special = vocabulary.kinds[i] != TokenKind::kUserDefined;
    const auto [found, is_new] = indices.emplace(content, spec.added_tokens.size());
    if (!is_new) {
      spec.added_tokens[found->second].special |= special;
      continue;
    }
    const auto known = ids.find(content);
    AddedToken token;
    token.content = content;
    token.id = known != ids.end() ? known->second : static_cast<uint32_t>(i);
    token.special = special;
    spec.added_tokens.push_back(std::move(token));
  }
}

// The tokens added around a text, and those of `ids`.
void add_common(const Vocabulary& vocabulary, const TokenIds& ids, TokenizerSpec& spec) {
  if (vocabulary.bos) spec.prefix.push_back(static_cast<uint32_t>(*vocabulary.bos));
  if (vocabulary.eos) spec.suffix.push_back(static_cast<uint32_t>(*vocabulary.eos));
  spec.vocabulary.reserve(ids.size());
  for (const auto& [token, id] : ids) spec.vocabulary.push_back({std::string(token), id});
  std::sort(spec.vocabulary.begin(), spec.vocabulary.end(),
            [](const VocabularyEntry& a, const VocabularyEntry& b) { return a.id < b.id; });
  add_added_tokens(vocabulary, ids, spec);
}

// A piece that is the concatenation of two others.
struct Merge {
  float score;
  uint32_t left_length, right_length;  // In characters.
  uint32_t left, right, whole;
};

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

// All ways to split a piece in two; for each piece by the parts' ids, then all by score and the parts' lengths, the
// highest first. The sort is stable.
std::vector<Merge> find_merges(const Vocabulary& vocabulary, const TokenIds& ids) {
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
                        static_cast<uint32_t>(count_characters(right->first)), left->second, right->second,
                        static_cast<uint32_t>(i)});
    }
    std::sort(merges.begin() + own, merges.end(),
              [](const Merge& a, const Merge& b) { return std::pair(a.left, a.right) < std::pair(b.left, b.right); });
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(a.score, a.left_length, a.right_length) > std::tuple(b.score, b.left_length, b.right_length);
  });
  return merges;
}

// How texts are split before merging, by the names that GGUF files use.
struct SplitRule {
  std::string_view pattern;
  bool digits = false;  // Split at digits first.
  bool nfc = false;
  bool ignore_merges = false;
};

std::optional<SplitRule> find_split_rule(std::string_view pre) {
  if (pre == "gpt-2" || pre == "phi-2") return SplitRule{.pattern = kGpt2Pattern};
  if (pre == "smollm" || pre == "starcoder" || pre == "refact")
    return SplitRule{.pattern = kGpt2Pattern, .digits = true};
  if (pre == "llama-bpe" || pre == "llama3" || pre == "llama-v3") {
    return SplitRule{.pattern = kLlama3Pattern, .ignore_merges = true};
  }
  if (pre == "qwen2" || pre == "deepseek-r1-qwen") return SplitRule{.pattern = kQwen2Pattern, .nfc = true};
  return std::nullopt;
}

// The lines "a b" of the file.
Status read_merges(const Vocabulary& vocabulary, std::string_view what, const TokenIds& ids, TokenizerSpec& spec) {
  for (size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const std::string_view line = vocabulary.merges[i];
    if (!is_valid_utf8(line)) return corrupt("{}: merge {} is not UTF-8", what, i);
    if (line.starts_with("#version")) continue;
    const auto pair = split_merge(line);
    if (!pair) {
      return corrupt("{}: merge {} (\"{}\") is not two tokens with a space between them", what, i,
                     printable_name(line));
    }
    if (const auto absent = append_merge(*pair, ids, spec)) {
      return corrupt("{}: merge {} needs the token \"{}\", which is not in the vocabulary", what, i,
                     printable_name(*absent));
    }
  }
  return ok_status();
}

}  // namespace

Result<TokenizerSpec> sentencepiece_spec(const Vocabulary& vocabulary, std::string_view what) {
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

  TokenizerSpec spec;
  if (vocabulary.add_space_prefix) spec.normalizers.push_back({.kind = NormalizerKind::kPrepend, .content = "▁"});
  spec.normalizers.push_back({.kind = NormalizerKind::kReplaceLiteral, .pattern = " ", .content = "▁"});
  spec.decoders.push_back({.kind = DecoderKind::kReplaceLiteral, .pattern = "▁", .content = " "});
  if (has_bytes) spec.decoders.push_back({.kind = DecoderKind::kByteFallback});
  spec.decoders.push_back({.kind = DecoderKind::kFuse});
  if (vocabulary.add_space_prefix) {
    spec.decoders.push_back({.kind = DecoderKind::kStrip, .options = 1, .content = " "});  // One at the start.
  }
  add_common(vocabulary, ids, spec);
  spec.fuse_unk = true;
  spec.byte_fallback = has_bytes;
  if (unknown != vocabulary.kinds.end()) {
    spec.has_unk = true;
    spec.unk_id = static_cast<uint32_t>(unknown - vocabulary.kinds.begin());
  }
  for (const Merge& merge : find_merges(vocabulary, ids)) {
    spec.merges.push_back({merge.left, merge.right, merge.whole, static_cast<uint32_t>(spec.merges.size())});
  }
  return spec;
}

Result<TokenizerSpec> byte_level_spec(const Vocabulary& vocabulary, std::string_view what) {
  TANDEM_TRY(check_tokens(vocabulary, what));
  const auto rule = find_split_rule(vocabulary.pre);
  if (!rule) {
    return unsupported(
        "{}: texts are split as \"{}\" says (tokenizer.ggml.pre), which is not supported (gpt-2, llama-bpe, qwen2 and "
        "smollm are)",
        what, printable_name(vocabulary.pre));
  }
  // Added tokens are matched literally, so they are not among the stand-ins for bytes; unused ones only fill a gap in
  // the ids.
  const auto keep = [](TokenKind kind) { return kind == TokenKind::kNormal || kind == TokenKind::kByte; };
  TANDEM_ASSIGN(const auto ids, index_tokens(vocabulary, what, keep));

  TokenizerSpec spec;
  if (rule->nfc) spec.normalizers.push_back({.kind = NormalizerKind::kNfc});
  const uint32_t isolated = split_options(SplitBehavior::kIsolated);
  if (rule->digits) spec.pre_tokenizers.push_back({.kind = PreTokenizerKind::kDigits, .options = isolated});
  spec.pre_tokenizers.push_back(
      {.kind = PreTokenizerKind::kSplitRegex, .options = isolated, .pattern = std::string(rule->pattern)});
  spec.pre_tokenizers.push_back({.kind = PreTokenizerKind::kByteLevel});
  spec.decoders.push_back({.kind = DecoderKind::kByteLevel});
  spec.ignore_merges = rule->ignore_merges;
  add_common(vocabulary, ids, spec);
  TANDEM_TRY(read_merges(vocabulary, what, ids, spec));
  return spec;
}

}  // namespace tandem
