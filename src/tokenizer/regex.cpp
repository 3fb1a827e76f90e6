#include "tokenizer/regex.h"

#include <algorithm>

#include "base/error.h"
#include "tokenizer/regex_matcher.h"
#include "tokenizer/regex_program.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// How many bytes the automaton may read per byte of a text. Real patterns read one or two.
constexpr uint64_t kDfaStepsPerByte = 16;
constexpr uint64_t kDfaSteps = 4096;

}  // namespace

struct Regex::Code {
  RegexProgram program;
  bool is_literal = false;
};

struct RegexMatcher::State {
  State(std::shared_ptr<const Regex::Code> shared, bool use_dfa)
      : code(std::move(shared)), machine(code->program), has_dfa(use_dfa && !code->program.dfa.empty()) {}

  std::shared_ptr<const Regex::Code> code;
  RegexMachine machine;
  bool has_dfa;
  std::string_view text;
  WorkBudget* budget = nullptr;
  uint64_t dfa_left = 0;           // The automaton is used until this is zero.
  size_t from = 0;                 // Where the next search begins.
  std::optional<size_t> last_end;  // Of the last match.

  Error too_long() const {
    return resource_exhausted(
        "the tokenizer's regular expression \"{}\" takes too long on this text (near byte {} of {})",
        shown_pattern(code->program.pattern), from, text.size());
  }
  RegexMachine::Outcome match_at(size_t begin, size_t& end);
  RegexMachine::Outcome search(RegexMatch& match);
  RegexMachine::Outcome find_literal(RegexMatch& match);
  RegexMachine::Outcome find_next(RegexMatch& match);
  size_t split_by_dfa(std::vector<std::string_view>& words);
};

std::string shown_pattern(std::string_view pattern) {
  constexpr size_t kShown = 200;
  if (pattern.size() <= kShown) return std::string(pattern);
  size_t end = kShown;
  while (end > 0 && (static_cast<uint8_t>(pattern[end]) & 0xc0) == 0x80) --end;
  return std::string(pattern.substr(0, end)).append("…");
}

Result<Regex> Regex::load(std::string_view compiled) {
  auto code = std::make_shared<Code>();
  TANDEM_ASSIGN(code->program, read_regex(compiled));
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  if (!is_valid_utf8(text)) return corrupt("a pattern of the tokenizer is not valid UTF-8");
  if (text.size() > kMaxLiteralBytes) {
    return unsupported("a pattern of the tokenizer has {} bytes; {} are the most", text.size(), kMaxLiteralBytes);
  }
  auto code = std::make_shared<Code>();
  code->program.pattern = text;
  code->is_literal = true;
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

Result<Regex> load_step_regex(std::string_view pattern, bool is_compiled) {
  if (is_compiled) return Regex::load(pattern);
  return unsupported(
      "the file's tokenizer has the regular expression \"{}\" as text, as older versions wrote it; compile the model "
      "again",
      shown_pattern(pattern));
}

bool Regex::has_dfa() const { return !code_->program.dfa.empty(); }

RegexMatcher::RegexMatcher(const Regex& regex, bool use_dfa) : state_(std::make_unique<State>(regex.code_, use_dfa)) {}
RegexMatcher::RegexMatcher(RegexMatcher&&) noexcept = default;
RegexMatcher::~RegexMatcher() = default;

void RegexMatcher::start(std::string_view text, WorkBudget& budget) {
  State& s = *state_;
  s.text = text;
  s.budget = &budget;
  s.from = 0;
  s.last_end.reset();
  s.dfa_left = s.has_dfa ? kDfaSteps + kDfaStepsPerByte * text.size() : 0;
  if (!s.code->is_literal) s.machine.start(text, budget);
}

RegexMachine::Outcome RegexMatcher::State::find_literal(RegexMatch& match) {
  const std::string& pattern = code->program.pattern;
  if (from > text.size()) return RegexMachine::Outcome::kFail;
  const size_t found = text.find(pattern, from);
  const bool is_found = found != std::string_view::npos;
  const size_t end = is_found ? found + pattern.size() : text.size();
  if (!budget->spend(end - from + 1)) return RegexMachine::Outcome::kTooLong;
  if (!is_found) return RegexMachine::Outcome::kFail;
  match = {found, end};
  from = end;
  if (pattern.empty()) from += end < text.size() ? next_valid_utf8(text.substr(end)).length : 1;
  return RegexMachine::Outcome::kMatch;
}

inline RegexMachine::Outcome RegexMatcher::State::match_at(size_t begin, size_t& end) {
  if (dfa_left == 0) return machine.match(begin, end);
  uint64_t work = 0;
  end = code->program.dfa.match(code->program.classes, text, begin, work);
  dfa_left -= std::min(dfa_left, work);
  if (!budget->spend(work)) return RegexMachine::Outcome::kTooLong;
  return end == RegexDfa::kNoMatch ? RegexMachine::Outcome::kFail : RegexMachine::Outcome::kMatch;
}

// The leftmost match from `from` on.
inline RegexMachine::Outcome RegexMatcher::State::search(RegexMatch& match) {
  const RegexProgram& program = code->program;
  for (size_t at = from; at <= text.size();) {
    if (!program.can_be_empty) {
      const size_t skip_from = at;
      while (at < text.size() && !program.begins[static_cast<uint8_t>(text[at])]) ++at;
      if (at != skip_from && !budget->spend(at - skip_from)) return RegexMachine::Outcome::kTooLong;
      if (at >= text.size()) break;
    }
    match.begin = at;
    const RegexMachine::Outcome outcome = match_at(at, match.end);
    if (outcome != RegexMachine::Outcome::kFail) return outcome;
    at += at < text.size() ? next_valid_utf8(text.substr(at)).length : 1;
  }
  return RegexMachine::Outcome::kFail;
}

inline RegexMachine::Outcome RegexMatcher::State::find_next(RegexMatch& match) {
  if (code->is_literal) return find_literal(match);
  while (from <= text.size()) {
    const RegexMachine::Outcome outcome = search(match);
    if (outcome == RegexMachine::Outcome::kTooLong) return outcome;
    if (outcome == RegexMachine::Outcome::kFail) break;
    if (match.begin == match.end && last_end == match.end) {
      if (from >= text.size()) break;
      from += next_valid_utf8(text.substr(from)).length;
      continue;
    }
    from = match.end;
    last_end = match.end;
    return outcome;
  }
  from = text.size() + 1;
  return RegexMachine::Outcome::kFail;
}

Result<std::optional<RegexMatch>> RegexMatcher::next() {
  RegexMatch match{};
  switch (state_->find_next(match)) {
    case RegexMachine::Outcome::kMatch: return std::optional(match);
    case RegexMachine::Outcome::kTooLong: return state_->too_long();
    case RegexMachine::Outcome::kFail: break;
  }
  return std::optional<RegexMatch>();
}

// Appends the words of a text until its automaton finds no match or runs out of steps. Returns where it stopped.
size_t RegexMatcher::State::split_by_dfa(std::vector<std::string_view>& words) {
  const RegexDfa& dfa = code->program.dfa;
  const CharClasses& classes = code->program.classes;
  const uint64_t limit = std::min(dfa_left, budget->left());
  uint64_t work = 0;
  size_t at = 0;
  while (at < text.size() && work < limit) {
    const size_t end = dfa.match(classes, text, at, work);
    if (end == RegexDfa::kNoMatch || end == at) break;
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  dfa_left -= std::min(dfa_left, work);
  (void)budget->spend(std::min(work, budget->left()));
  return at;
}

Status RegexMatcher::split(std::string_view text, WorkBudget& budget, bool with_gaps,
                           std::vector<std::string_view>& words) {
  start(text, budget);
  State& s = *state_;
  size_t done = s.has_dfa ? s.split_by_dfa(words) : 0;
  if (done > 0) {
    s.from = done;
    s.last_end = done;
  }
  while (done < text.size()) {
    RegexMatch match{};
    const RegexMachine::Outcome outcome = s.find_next(match);
    if (outcome == RegexMachine::Outcome::kTooLong) return s.too_long();
    if (outcome == RegexMachine::Outcome::kFail) break;
    if (with_gaps && done < match.begin) words.push_back(text.substr(done, match.begin - done));
    if (match.begin < match.end) words.push_back(text.substr(match.begin, match.end - match.begin));
    done = match.end;
  }
  if (with_gaps && done < text.size()) words.push_back(text.substr(done));
  return ok_status();
}

}  // namespace tandem
