#include "tokenizer/split_patterns.h"

#include <array>

#include "tokenizer/tokenizer_spec.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr std::string_view kO200kPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr std::array<uint8_t, 128> make_ascii_classes() {
  std::array<uint8_t, 128> classes{};
  for (uint8_t c = 0; c < 128; ++c) {
    if (c >= 'A' && c <= 'Z') classes[c] = kClassUpper;
    if (c >= 'a' && c <= 'z') classes[c] = kClassLower;
    if (c >= '0' && c <= '9') classes[c] = kClassNumber;
    if (c == ' ' || (c >= '\t' && c <= '\r')) classes[c] = kClassWhiteSpace;
  }
  return classes;
}

constexpr std::array<uint8_t, 128> kAsciiClasses = make_ascii_classes();

// What [^\s\p{L}\p{N}] excludes.
constexpr unsigned kNotSign = kClassLetter | kClassNumber | kClassWhiteSpace;
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}].
constexpr unsigned kCapitals = kClassUpper | kClassOtherLetter | kClassMark;
constexpr unsigned kSmalls = kClassLower | kClassOtherLetter | kClassMark;

struct Character {
  unsigned kind;  // CharacterClass, or kEndOfText.
  size_t length;
};
constexpr unsigned kEndOfText = 1u << 16;

bool is_newline(char c) { return c == '\r' || c == '\n'; }

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Where the word that begins at `at` ends. Each follows the alternatives of its pattern in order; what an expression
  // would find by backtracking is computed directly.
  size_t gpt2(size_t at) const {
    if (text_[at] == '\'') {
      if (const size_t length = contraction<false>(at); length > 0) return at + length;
    }
    const Character first = character(at);
    // " ?\p{L}+", " ?\p{N}+", " ?[^\s\p{L}\p{N}]+"
    const size_t begin = text_[at] == ' ' ? at + 1 : at;
    const Character head = begin == at ? first : character(begin);
    if ((head.kind & kClassLetter) != 0) return run_of(begin + head.length, kClassLetter);
    if (head.kind == kClassNumber) return run_of(begin + head.length, kClassNumber);
    if ((head.kind & (kNotSign | kEndOfText)) == 0) return run_without(begin + head.length, kNotSign);
    return white_space(at, run_of(at + first.length, kClassWhiteSpace));
  }

  template <size_t kDigits>
  size_t llama3(size_t at) const {
    if (text_[at] == '\'') {
      if (const size_t length = contraction<true>(at); length > 0) return at + length;
    }
    // "[^\r\n\p{L}\p{N}]?\p{L}+"
    const Character first = character(at);
    if ((first.kind & kClassLetter) != 0) return run_of(at + first.length, kClassLetter);
    if (first.kind == kClassNumber) return number<kDigits>(at + first.length);
    const Character second = character(at + first.length);
    if ((second.kind & kClassLetter) != 0 && !is_newline(text_[at])) {
      return run_of(at + first.length + second.length, kClassLetter);
    }
    if (const size_t end = signs(at, first, second); end > 0) {
      return newlines(end);
    }
    return lines(at, run_of(at + first.length, kClassWhiteSpace));
  }

  size_t o200k(size_t at) const {
    const Character first = character(at);
    if (first.kind == kClassNumber) return number<3>(at + first.length);
    // The first two alternatives, each with the character before the word and then without it.
    const bool may_lead = (first.kind & kClassLetter) == 0 && !is_newline(text_[at]);
    const size_t after = at + first.length;
    if (may_lead) {
      if (const size_t end = small_word(after); end > 0) return end;
    }
    if ((first.kind & (kCapitals | kSmalls)) != 0) {
      if (const size_t end = small_word(at); end > 0) return end;
    }
    if (may_lead) {
      if (const size_t end = run_of(after, kCapitals); end > after) return with_contraction(end);
    }
    if ((first.kind & kCapitals) != 0) return with_contraction(run_of(after, kCapitals));
    if (const size_t end = signs(at, first, character(after)); end > 0) {
      size_t last = end;
      while (last < text_.size() && (is_newline(text_[last]) || text_[last] == '/')) ++last;
      return last;
    }
    return lines(at, run_of(after, kClassWhiteSpace));
  }

 private:
  Character character(size_t at) const {
    if (at >= text_.size()) return {kEndOfText, 0};
    const auto byte = static_cast<uint8_t>(text_[at]);
    if (byte < 0x80) return {kAsciiClasses[byte], 1};
    const Utf8Sequence sequence = next_valid_utf8(text_.substr(at));
    return {character_class(sequence.code_point), sequence.length};
  }

  // The end of the run of characters of these classes that begins at `at`.
  size_t run_of(size_t at, unsigned classes) const {
    while (true) {
      const Character next = character(at);
      if ((next.kind & classes) == 0) return at;
      at += next.length;
    }
  }

  size_t run_without(size_t at, unsigned classes) const {
    while (true) {
      const Character next = character(at);
      if ((next.kind & (classes | kEndOfText)) != 0) return at;
      at += next.length;
    }
  }

  // The length of 's, 't, 're, 've, 'm, 'll or 'd at `at`, where an apostrophe is; 0 if it is none of them.
  template <bool kAnyCase>
  size_t contraction(size_t at) const {
    const auto letter = [&](size_t i) -> char {
      if (at + i >= text_.size()) return '\0';
      const char c = text_[at + i];
      return kAnyCase && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    };
    const char first = letter(1);
    switch (first) {
      case 's':
      case 't':
      case 'm':
      case 'd': return 2;
      case 'r':
      case 'v': return letter(2) == 'e' ? 3 : 0;
      case 'l': return letter(2) == 'l' ? 3 : 0;
      default: break;
    }
    // The long s is an s in upper and lower case.
    if (kAnyCase && first == '\xC5' && letter(2) == '\xBF') return 3;
    return 0;
  }

  size_t with_contraction(size_t end) const {
    return end < text_.size() && text_[end] == '\'' ? end + contraction<true>(end) : end;
  }

  // "[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" and a contraction; 0 if it does not match.
  size_t small_word(size_t at) const {
    size_t last_small = 0;  // The end of the last character of the first class that is also in the second.
    size_t i = at;
    while (true) {
      const Character next = character(i);
      if ((next.kind & kCapitals) == 0) break;
      i += next.length;
      if ((next.kind & kSmalls) != 0) last_small = i;
    }
    if (const size_t end = run_of(i, kSmalls); end > i) return with_contraction(end);
    return last_small > 0 ? with_contraction(last_small) : 0;
  }

  // " ?[^\s\p{L}\p{N}]+"; 0 if it does not match.
  size_t signs(size_t at, const Character& first, const Character& second) const {
    const bool space = text_[at] == ' ';
    const Character& head = space ? second : first;
    if ((head.kind & (kNotSign | kEndOfText)) != 0) return 0;
    return run_without(at + first.length + (space ? second.length : 0), kNotSign);
  }

  // After the first digit of "\p{N}{1,kDigits}".
  template <size_t kDigits>
  size_t number(size_t at) const {
    for (size_t i = 1; i < kDigits; ++i) {
      const Character next = character(at);
      if (next.kind != kClassNumber) break;
      at += next.length;
    }
    return at;
  }

  size_t newlines(size_t at) const {
    while (at < text_.size() && is_newline(text_[at])) ++at;
    return at;
  }

  // "\s*[\r\n]+|\s+(?!\S)|\s+" in white space from `at` to `end`: up to its last line break, if it has one.
  size_t lines(size_t at, size_t end) const {
    for (size_t i = end; i > at; --i) {
      if (is_newline(text_[i - 1])) return i;
    }
    return white_space(at, end);
  }

  // "\s+(?!\S)|\s+": the last character before a word is left to the word.
  size_t white_space(size_t at, size_t end) const {
    if (end == text_.size()) return end;
    size_t last = end - 1;
    while ((static_cast<uint8_t>(text_[last]) & 0xc0) == 0x80) --last;
    return last > at ? last : end;
  }

  std::string_view text_;
};

template <typename Next>
void split(std::string_view text, std::vector<std::string_view>& words, Next&& next) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = next(at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

std::optional<KnownPattern> find_known_pattern(std::string_view pattern) {
  if (pattern == kGpt2Pattern) return KnownPattern::kGpt2;
  if (pattern == kLlama3Pattern) return KnownPattern::kLlama3;
  if (pattern == kQwen2Pattern) return KnownPattern::kQwen2;
  if (pattern == kO200kPattern) return KnownPattern::kO200k;
  return std::nullopt;
}

void split_by_known_pattern(KnownPattern pattern, std::string_view text, std::vector<std::string_view>& words) {
  const Scanner scanner(text);
  switch (pattern) {
    case KnownPattern::kGpt2: split(text, words, [&](size_t at) { return scanner.gpt2(at); }); break;
    case KnownPattern::kLlama3: split(text, words, [&](size_t at) { return scanner.llama3<3>(at); }); break;
    case KnownPattern::kQwen2: split(text, words, [&](size_t at) { return scanner.llama3<1>(at); }); break;
    case KnownPattern::kO200k: split(text, words, [&](size_t at) { return scanner.o200k(at); }); break;
  }
}

}  // namespace tandem
