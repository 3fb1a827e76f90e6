// Regular expressions of tokenizer files, in Oniguruma's syntax, matched in bounded time.
//
// An engine of our own, because the time must be bounded for any pattern and over all matches of a text: it counts its
// steps, and charges them to the budget of the call. It tries alternatives in order, as Oniguruma does. A text on which
// that takes many steps is searched again with a memory of what failed where, which makes a search for all matches
// linear in the text, whatever the pattern (but for atomic groups and loops over what can be empty). See
// regex_matcher.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/status.h"
#include "tokenizer/work_budget.h"

namespace tandem {

struct RegexProgram;

// A compiled pattern. Immutable and shared by threads; each caller has a RegexMatcher of its own.
class Regex {
 public:
  // kUnsupported names the construct that is not known to mean the same as in Oniguruma.
  static Result<Regex> compile(std::string_view pattern);
  // A pattern that matches exactly this text; an empty one matches between all characters.
  static Result<Regex> literal(std::string_view text);

 private:
  friend class RegexMatcher;
  struct Code;
  std::shared_ptr<const Code> code_;
};

// What a literal pattern of a tokenizer may have: it is compared at every byte of a text.
inline constexpr size_t kMaxLiteralBytes = 1024;

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

  // Begins to search `text`, which must be valid UTF-8 and outlive the search, as `budget` must.
  void start(std::string_view text, WorkBudget& budget);
  // The next match after the last; an empty one never where the last one ended. kResourceExhausted when the budget is.
  Result<std::optional<RegexMatch>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
