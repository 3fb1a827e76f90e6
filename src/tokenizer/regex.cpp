#include "tokenizer/regex.h"

#include "base/error.h"
#include "tokenizer/regex_matcher.h"
#include "tokenizer/regex_program.h"
#include "unicode/utf8.h"

namespace tandem {

struct Regex::Code {
  std::string pattern;
  RegexProgram program;
  bool is_literal = false;
};

struct RegexMatcher::State {
  explicit State(std::shared_ptr<const Regex::Code> shared) : code(std::move(shared)), machine(code->program) {}

  std::shared_ptr<const Regex::Code> code;
  RegexMachine machine;
  std::string_view text;
  WorkBudget* budget = nullptr;
  size_t from = 0;                 // Where the next search begins.
  std::optional<size_t> last_end;  // Of the last match.

  Error too_long() const {
    return resource_exhausted(
        "the tokenizer's regular expression \"{}\" takes too long on this text (near byte {} of {})",
        shown_pattern(code->pattern), from, text.size());
  }
  Result<std::optional<RegexMatch>> search();
  Result<std::optional<RegexMatch>> find_literal();
};

std::string shown_pattern(std::string_view pattern) {
  constexpr size_t kShown = 200;
  if (pattern.size() <= kShown) return std::string(pattern);
  size_t end = kShown;
  while (end > 0 && (static_cast<uint8_t>(pattern[end]) & 0xc0) == 0x80) --end;
  return std::string(pattern.substr(0, end)).append("…");
}

Result<Regex> Regex::compile(std::string_view pattern) {
  auto code = std::make_shared<Code>();
  code->pattern = pattern;
  TANDEM_ASSIGN(RegexTree tree, parse_regex(pattern));
  TANDEM_ASSIGN(code->program, compile_regex(std::move(tree), pattern));
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  if (text.empty()) return compile("");
  if (!is_valid_utf8(text)) return corrupt("a pattern of the tokenizer is not valid UTF-8");
  if (text.size() > kMaxLiteralBytes) {
    return unsupported("a pattern of the tokenizer has {} bytes; {} are the most", text.size(), kMaxLiteralBytes);
  }
  auto code = std::make_shared<Code>();
  code->pattern = text;
  code->is_literal = true;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

RegexMatcher::RegexMatcher(const Regex& regex) : state_(std::make_unique<State>(regex.code_)) {}
RegexMatcher::RegexMatcher(RegexMatcher&&) noexcept = default;
RegexMatcher::~RegexMatcher() = default;

void RegexMatcher::start(std::string_view text, WorkBudget& budget) {
  State& s = *state_;
  s.text = text;
  s.budget = &budget;
  s.from = 0;
  s.last_end.reset();
  if (!s.code->is_literal) s.machine.start(text, budget);
}

Result<std::optional<RegexMatch>> RegexMatcher::State::find_literal() {
  const size_t found = text.find(code->pattern, from);
  const size_t end = found == std::string_view::npos ? text.size() : found + code->pattern.size();
  if (!budget->spend(end - from)) return too_long();
  from = end;
  if (found == std::string_view::npos) return std::optional<RegexMatch>();
  return std::optional(RegexMatch{found, end});
}

// The leftmost match from `from` on.
Result<std::optional<RegexMatch>> RegexMatcher::State::search() {
  const RegexProgram& program = code->program;
  for (size_t at = from; at <= text.size();) {
    if (!program.can_be_empty) {
      const size_t skip_from = at;
      while (at < text.size() && !program.begins[static_cast<uint8_t>(text[at])]) ++at;
      if (!budget->spend(at - skip_from)) return too_long();
      if (at >= text.size()) break;
    }
    size_t end = 0;
    switch (machine.match(at, end)) {
      case RegexMachine::Outcome::kMatch: return std::optional(RegexMatch{at, end});
      case RegexMachine::Outcome::kTooLong: return too_long();
      case RegexMachine::Outcome::kFail: break;
    }
    at += at < text.size() ? next_valid_utf8(text.substr(at)).length : 1;
  }
  return std::optional<RegexMatch>();
}

Result<std::optional<RegexMatch>> RegexMatcher::next() {
  State& s = *state_;
  if (s.code->is_literal) return s.find_literal();
  while (s.from <= s.text.size()) {
    TANDEM_ASSIGN(const std::optional<RegexMatch> found, s.search());
    if (!found) break;
    if (found->begin == found->end && s.last_end == found->end) {
      if (s.from >= s.text.size()) break;
      s.from += next_valid_utf8(s.text.substr(s.from)).length;
      continue;
    }
    s.from = found->end;
    s.last_end = found->end;
    return found;
  }
  s.from = s.text.size() + 1;
  return std::optional<RegexMatch>();
}

}  // namespace tandem
