// Regular expressions of tokenizer files, compiled ahead of time and matched in bounded time.
//
// We have our own engine because the time must be bounded for any pattern and over all matches of a text: it counts its
// steps, and charges them to the budget of the call. It finds what Oniguruma finds by trying alternatives in order.
// Most patterns have an automaton (regex_dfa.h), which reads each character once per match. Texts on which that takes
// many steps, and patterns without an automaton, use a backtracking machine that remembers what failed where, so that
// finding all matches takes time linear in the text, whatever the pattern (except for atomic groups and loops whose
// body can be empty). See regex_matcher.h. The compiler is in tokenizer/regex/.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/work_budget.h"

namespace tandem {

struct RegexProgram;

// A compiled pattern. Immutable and shared by threads; each caller has its own RegexMatcher.
class Regex {
 public:
  // The output of compile_regex(). Any bytes are safe.
  static Result<Regex> load(std::string_view compiled);
  // A pattern that matches exactly this text; an empty one matches between all characters.
  static Result<Regex> literal(std::string_view text);

  bool has_dfa() const;

 private:
  friend class RegexMatcher;
  struct Code;
  std::shared_ptr<const Code> code_;
};

// The most bytes of a tokenizer's literal pattern: it is compared at every byte of a text.
inline constexpr size_t kMaxLiteralBytes = 1024;

// The regular expression of a tokenizer's step. Files from before patterns were compiled have its text, which is
// refused.
Result<Regex> load_step_regex(std::string_view pattern, bool is_compiled);

struct RegexMatch {
  size_t begin;
  size_t end;
};

class RegexMatcher {
 public:
  // Without `use_dfa`, a pattern is run by the backtracking machine alone.
  explicit RegexMatcher(const Regex& regex, bool use_dfa = true);
  RegexMatcher(RegexMatcher&&) noexcept;
  RegexMatcher& operator=(RegexMatcher&&) = delete;
  ~RegexMatcher();

  // Begins to search `text`, which must be valid UTF-8. `text` and `budget` must outlive the search.
  void start(std::string_view text, WorkBudget& budget);
  // The next match; never an empty one where the last match ended. kResourceExhausted when the budget is spent.
  Result<std::optional<RegexMatch>> next();
  // Appends all matches in `text` to `words`, and the text between them if `with_gaps`; omits empty ones.
  Status split(std::string_view text, WorkBudget& budget, bool with_gaps, std::vector<std::string_view>& words);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tandem
