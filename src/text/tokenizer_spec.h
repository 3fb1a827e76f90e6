// A tokenizer as data, between tokenizer.json and the compiled form: what was read, checked, and given its ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "tandem/status.h"

namespace tandem {

// The numeric values of these enums are stored in compiled tokenizers: never renumber, only append.

enum class NormalizerKind : uint32_t { kNfc = 1 };

enum class PreTokenizerKind : uint32_t {
  kAddPrefixSpace = 1,  // A space before every piece that does not begin with one.
  kSplitRegex = 2,      // `pattern` in Oniguruma's syntax.
  kSplitLiteral = 3,    // `pattern` is plain text.
  kDigits = 4,          // Split at numeric characters.
};

// What becomes of a delimiter; as the library of the same names does it.
enum class SplitBehavior : uint32_t {
  kRemoved = 0,
  kIsolated = 1,
  kMergedWithPrevious = 2,
  kMergedWithNext = 3,
  kContiguous = 4,
};

struct PreTokenizerStep {
  PreTokenizerKind kind = PreTokenizerKind::kSplitRegex;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;
  std::string pattern;
};

struct AddedToken {
  std::string content;
  uint32_t id = 0;
  bool single_word = false;  // Only where no word character is next to it.
  bool lstrip = false;       // Swallows white space on its left.
  bool rstrip = false;       // Swallows white space on its right.
  bool normalized = false;   // Matched in normalized text, in its normalized form.
  bool special = false;      // Left out by decode(…, skip_special).
};

struct BpeMerge {
  uint32_t left;
  uint32_t right;
  uint32_t merged;
};

struct VocabularyEntry {
  std::string token;  // As written in the file, in the byte-level alphabet.
  uint32_t id;
};

struct TokenizerSpec {
  std::vector<NormalizerKind> normalizers;
  std::vector<PreTokenizerStep> pre_tokenizers;
  std::vector<VocabularyEntry> vocabulary;
  std::vector<BpeMerge> merges;  // By rank.
  bool ignore_merges = false;    // A piece that is a token as a whole is taken as it is.
  bool fuse_unk = false;
  bool has_unk = false;
  std::optional<uint32_t> unk_id;  // Absent although has_unk: an error once it is needed, as in the library.
  std::vector<AddedToken> added_tokens;
  std::vector<uint32_t> prefix;  // What the post-processor puts before and after a text.
  std::vector<uint32_t> suffix;
};

// Ids from here on are refused: tables are indexed by id, and no vocabulary comes near.
inline constexpr uint32_t kMaxTokenId = 1u << 22;
inline constexpr uint32_t kNoToken = 0xffffffffu;

// The normalizers, applied to valid UTF-8.
std::string normalize(const std::vector<NormalizerKind>& normalizers, std::string_view text);

// Reads a parsed tokenizer.json.
Result<TokenizerSpec> read_tokenizer_spec(const Json& json);

}  // namespace tandem
