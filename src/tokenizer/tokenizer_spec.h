// A tokenizer as data, between the files it was read from and the compiled form: read, checked, and with ids assigned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// The numeric values of these enums are stored in compiled tokenizers: never renumber, only append.

enum class ModelKind : uint32_t { kBpe = 0, kUnigram = 1 };

enum class NormalizerKind : uint32_t {
  kNfc = 1,
  kNfd = 2,
  kNfkc = 3,
  kNfkd = 4,
  kReplaceLiteral = 5,  // `pattern` by `content`.
  kReplaceRegex = 6,
  kPrepend = 7,  // `content`, unless the text is empty.
  kStrip = 8,    // White space; `options` has kStripLeft and kStripRight.
  kLowercase = 9,
  kStripAccents = 10,  // Removes combining marks.
  kNmt = 11,           // Removes control characters, and turns everything that looks like a space into one.
  kByteLevel = 12,     // Bytes to the byte-level alphabet.
  kCharsMap = 13,      // `pattern` is a sentencepiece "precompiled_charsmap".
};
inline constexpr uint32_t kStripLeft = 1;
inline constexpr uint32_t kStripRight = 2;

enum class PreTokenizerKind : uint32_t {
  kAddPrefixSpace = 1,  // A space before every piece that does not begin with one.
  kSplitRegex = 2,      // `pattern` in Oniguruma's syntax.
  kSplitLiteral = 3,    // `pattern` is plain text.
  kDigits = 4,          // Split at numeric characters.
  kMetaspace = 5,       // Spaces to `pattern`, one before the text, and split there; `options` by metaspace_options().
  kByteLevel = 6,       // Bytes to the byte-level alphabet.
  kPunctuation = 7,
  kWhitespace = 8,       // Runs of word characters, and runs of characters that are neither that nor white space.
  kWhitespaceSplit = 9,  // White space is removed.
};

enum class DecoderKind : uint32_t {
  kByteLevel = 1,       // All tokens to one text, by the byte-level alphabet.
  kMetaspace = 2,       // `pattern` to a space, or to nothing in the first token; `options` by metaspace_options().
  kReplaceLiteral = 3,  // `pattern` by `content`, in each token.
  kReplaceRegex = 4,
  kByteFallback = 5,  // Runs of <0xNN> to the UTF-8 text that they encode.
  kFuse = 6,          // All tokens to one.
  kStrip = 7,  // Up to `options` & 0xffff times `content` at the start of each token, `options` >> 16 at its end.
  kBpe = 8,    // `pattern` ends a word: to a space, or to nothing in the last token.
};

// What happens to a delimiter; as in the library, which has the same names.
enum class SplitBehavior : uint32_t {
  kRemoved = 0,
  kIsolated = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};

enum class PrependScheme : uint32_t { kAlways = 0, kFirst = 1, kNever = 2 };

// How a split step stores its options.
inline constexpr uint32_t split_options(SplitBehavior behavior, bool invert = false) {
  return static_cast<uint32_t>(behavior) | (invert ? 0x100u : 0u);
}
inline constexpr uint32_t metaspace_options(PrependScheme scheme, bool split) {
  return static_cast<uint32_t>(scheme) | (split ? 0x100u : 0u);
}

// One step from a text to words, or from tokens to a text.
template <typename Kind>
struct TokenizerStep {
  Kind kind{};
  uint32_t options = 0;
  std::string pattern = {};
  std::string content = {};
  bool is_compiled = false;  // The pattern of a regular expression is the output of compile_regex().
};
inline bool is_regex(NormalizerKind kind) { return kind == NormalizerKind::kReplaceRegex; }
inline bool is_regex(PreTokenizerKind kind) { return kind == PreTokenizerKind::kSplitRegex; }
inline bool is_regex(DecoderKind kind) { return kind == DecoderKind::kReplaceRegex; }
using NormalizerStep = TokenizerStep<NormalizerKind>;
using PreTokenizerStep = TokenizerStep<PreTokenizerKind>;
using DecoderStep = TokenizerStep<DecoderKind>;

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;  // Only where no word character is next to it.
  bool lstrip = false;       // Swallows white space on its left.
  bool rstrip = false;       // Swallows white space on its right.
  bool normalized = false;   // Matched in normalized text, in its normalized form.
  bool special = false;      // Omitted by decode(…, skip_special).
  bool as_is = false;        // The content is the normalized form already.
};

struct BpeMerge {
  uint32_t left;
  uint32_t right;
  uint32_t merged;
  uint32_t rank;  // The lowest goes first; of equal ranks, the leftmost in the text goes first.
};

struct VocabularyEntry {
  std::string token;  // As written in the file.
  uint32_t id = 0;
  double score = 0;  // Unigram only: the logarithm of the token's probability.
};

struct TokenizerSpec {
  std::vector<NormalizerStep> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  std::vector<DecoderStep> decoders;  // None: the tokens with a space between them.
  ModelKind model = ModelKind::kBpe;
  std::vector<VocabularyEntry> vocabulary;
  std::vector<BpeMerge> merges;
  bool ignore_merges = false;  // A piece that is a token as a whole is not merged.
  bool fuse_unk = false;
  bool byte_fallback = false;  // Characters that are not in the vocabulary become tokens <0xNN>.
  bool has_unk = false;
  std::optional<uint32_t> unk_id;  // Absent despite has_unk: an error once it is needed, as in the library.
  std::vector<AddedToken> added_tokens;
  std::vector<uint32_t> prefix;  // The ids that the post-processor adds before and after a text.
  std::vector<uint32_t> suffix;
};

// Ids from here on are refused: tables are indexed by id, and no vocabulary comes close.
inline constexpr uint32_t kMaxTokenId = 1u << 22;
inline constexpr uint32_t kNoToken = 0xffffffffu;
inline constexpr size_t kMaxTokenBytes = 1 << 20;
// An added token is compared byte by byte at every position of a text where it could begin.
inline constexpr size_t kMaxAddedTokenBytes = 1024;
inline constexpr size_t kMaxTokenizerSteps = 64;

// Patterns that are not in the files of the tokenizers that use them.
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace tandem
