// Regular expressions of tokenizer files, run by PCRE2.
//
// The files are written for Oniguruma. Where the two engines read the same characters differently, the pattern is
// translated (\s, \w, \h, \u…) or refused; it is never run with another meaning.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

// The PCRE2 form of an Oniguruma pattern. kUnsupported names the construct that has no safe translation. Patterns that
// know the characters of unicode_additions.h are slower, so they are for texts that have some.
Result<std::string> translate_oniguruma(std::string_view pattern, bool with_additions = false);
// A pattern that matches exactly this text.
std::string escape_regex(std::string_view text);

// A compiled pattern. Immutable and shared by threads; each caller has a RegexMatcher of its own.
class Regex {
 public:
  // `pattern` is in PCRE2's syntax, in UTF-8.
  static Result<Regex> compile(const std::string& pattern);

 private:
  friend class RegexMatcher;
  struct Code;
  std::shared_ptr<const Code> code_;
};

struct RegexMatch {
  size_t begin;
  size_t end;
};

class RegexMatcher {
 public:
  explicit RegexMatcher(const Regex& regex);
  RegexMatcher(RegexMatcher&&) noexcept;
  RegexMatcher& operator=(RegexMatcher&&) = delete;
  ~RegexMatcher();

  // Begins to search `text`, which must be valid UTF-8 and outlive the search.
  void start(std::string_view text);
  // The next match after the last; an empty one never where the last one ended. Gives kResourceExhausted when the
  // engine's limits (which grow with the text) are reached: that bounds patterns that would backtrack forever.
  Result<std::optional<RegexMatch>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
