// From the instructions of a regular expression to its automaton (tokenizer/regex_dfa.h).
//
// The states are found as in RE2: a state is the list of the instructions at which a match may continue, in the order
// in which a backtracking matcher would try them. For each class of the next character, conditions are evaluated, the
// list is followed up to the instructions that consume a character, and everything after the end of the pattern is
// dropped, since it would be tried only if the match had failed.
#include <algorithm>
#include <map>

#include "tokenizer/regex/regex_tree.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

// The patterns of real tokenizers have 10 to 60 states and 5 to 20 classes.
constexpr size_t kMaxStates = 1024;
constexpr size_t kMaxTransitions = 1 << 14;
constexpr size_t kMaxSteps = 1 << 20;

// An instruction and, for a repeat, how many characters it has consumed. The highest bit: about to consume a character.
constexpr uint32_t kCounterBits = 14;
constexpr uint32_t kTakeBit = 0x80000000u;
constexpr uint32_t kMaxTaken = (1u << (31 - kCounterBits)) - 1;
static_assert(kMaxRegexInstructions <= 1u << kCounterBits);

enum class Answer : uint8_t { kNo, kYes, kUnknown };

class DfaBuilder {
 public:
  explicit DfaBuilder(const RegexProgram& program)
      : program_(program), classes_(program.classes.count()), line_break_(program.classes.of('\n')) {
    for (const RegexInstruction& i : program.code) {
      looks_back_ = looks_back_ || (i.op == Op::kLook && i.behind) ||
                    (i.op == Op::kAssert &&
                     (i.assertion == RegexAssertion::kTextBegin || i.assertion == RegexAssertion::kLineBegin));
    }
  }

  bool run() {
    if (classes_ > kMaxTransitions / 2) return false;
    (void)state_of({}, kNothing);  // State 0.
    for (uint32_t before = 0; looks_back_ && before < classes_; ++before) {
      starts_.push_back(state_of({followed(0)}, before));
    }
    starts_.push_back(state_of({followed(0)}, kNothing));
    for (size_t state = 0; state < lists_.size(); ++state) {
      if (lists_.size() > kMaxStates || lists_.size() * (classes_ + 1) > kMaxTransitions) return false;
      for (uint32_t next = 0; next <= classes_; ++next) {
        if (!add_transition(state, next)) return false;
      }
    }
    return true;
  }

  std::vector<uint16_t> starts_;
  std::vector<uint16_t> table_;

 private:
  // As the class of the previous or next character: the beginning of the text, or its end.
  static constexpr uint32_t kNothing = 0xffffu;

  using List = std::vector<uint32_t>;

  uint16_t state_of(List list, uint32_t before) {
    list.push_back(looks_back_ && !list.empty() ? before : kNothing);
    const auto [found, is_new] = states_.emplace(list, static_cast<uint16_t>(lists_.size()));
    if (is_new) lists_.push_back(std::move(list));
    return found->second;
  }

  // Skips jumps, so that equivalent lists are equal.
  uint32_t followed(uint32_t at) const {
    for (size_t i = 0; program_.code[at].op == Op::kJump && i < program_.code.size(); ++i) at = program_.code[at].x;
    return at;
  }

  static uint32_t program_counter(uint32_t item) { return item & ((1u << kCounterBits) - 1); }
  static uint32_t taken(uint32_t item) { return (item & ~kTakeBit) >> kCounterBits; }

  bool is_in(uint32_t set, uint32_t char_class) const {
    return char_class < classes_ && program_.sets[set][char_class];
  }

  bool add_transition(size_t state, uint32_t next) {
    before_ = lists_[state].back();
    next_ = next < classes_ ? next : kNothing;
    targets_.clear();
    bool ends_match = false;
    std::map<uint32_t, bool> seen;
    for (size_t i = 0; i + 1 < lists_[state].size() && !ends_match; ++i) {
      if (!follow(lists_[state][i], seen, ends_match)) return false;
    }
    const uint16_t to = state_of(targets_, next_);
    table_.push_back(static_cast<uint16_t>(to | (ends_match ? RegexDfa::kEndsMatch : 0u)));
    return true;
  }

  void take(uint32_t item) {
    if (std::find(targets_.begin(), targets_.end(), item) == targets_.end()) targets_.push_back(item);
  }

  // Follows an item in the order in which a matcher would. False: this pattern has no automaton.
  bool follow(uint32_t from, std::map<uint32_t, bool>& seen, bool& ends_match) {
    List waiting = {from};
    while (!waiting.empty()) {
      if (++steps_ > kMaxSteps) return false;
      const uint32_t item = waiting.back();
      waiting.pop_back();
      if (!seen.emplace(item, true).second) continue;
      const uint32_t at = program_counter(item);
      const RegexInstruction& i = program_.code[at];
      switch (i.op) {
        case Op::kSet:
          if (is_in(i.set, next_)) take(followed(at + 1));
          break;
        case Op::kRepeat:
          if (!repeat(item, i, waiting)) return false;
          break;
        case Op::kSplit:
          waiting.push_back(i.y);
          waiting.push_back(i.x);
          break;
        case Op::kJump: waiting.push_back(i.x); break;
        case Op::kAssert:
          if (holds(i.assertion)) waiting.push_back(at + 1);
          break;
        case Op::kLook: {
          const Answer answer = look(at);
          if (answer == Answer::kUnknown) return false;
          if ((answer == Answer::kYes) != i.negated) waiting.push_back(i.x);
          break;
        }
        case Op::kAtomic:
        case Op::kEnterLoop:
        case Op::kNextRound: return false;
        case Op::kAccept: ends_match = true; return true;
      }
    }
    return true;
  }

  bool repeat(uint32_t item, const RegexInstruction& i, List& waiting) {
    const uint32_t count = taken(item);
    const bool takes = count < i.max && is_in(i.set, next_);
    // A possessive one continues only where it can consume no more.
    const bool goes_on = count >= i.min && (i.mode != RepeatMode::kPossessive || !takes);
    // Without an upper bound, all counts from the minimum on are equivalent.
    const uint32_t most = i.max == kUnbounded ? i.min : i.max;
    if (most > kMaxTaken) return false;
    const uint32_t again = program_counter(item) | (std::min(count + 1, most) << kCounterBits);
    const bool is_take = (item & kTakeBit) != 0;
    if (takes && (is_take || i.mode != RepeatMode::kLazy)) take(again);
    if (is_take) return true;
    if (takes && i.mode == RepeatMode::kLazy) waiting.push_back(item | kTakeBit);
    // An unbounded repeat consumes at any count from the minimum on, and so does its first step.
    if (goes_on) waiting.push_back(program_counter(item) + 1);
    return true;
  }

  bool holds(RegexAssertion assertion) const {
    switch (assertion) {
      case RegexAssertion::kTextBegin: return before_ == kNothing;
      case RegexAssertion::kTextEnd: return next_ == kNothing;
      case RegexAssertion::kLineBegin: return before_ == kNothing || (before_ == line_break_ && next_ != kNothing);
      case RegexAssertion::kLineEnd: return next_ == kNothing || next_ == line_break_;
    }
    return false;
  }

  // A condition that one character decides.
  Answer look(uint32_t at) {
    const RegexInstruction& i = program_.code[at];
    if (!i.behind || i.min == 0) return look_at(at + 1, next_, false);
    if (i.min > 1) return Answer::kUnknown;
    return before_ == kNothing ? Answer::kNo : look_at(at + 1, before_, true);
  }

  // Whether what begins at `from` matches, if that needs no more than this character.
  Answer look_at(uint32_t from, uint32_t character, bool behind) {
    List waiting = {from};
    std::map<uint32_t, bool> seen;
    bool unknown = false;
    while (!waiting.empty()) {
      if (++steps_ > kMaxSteps) return Answer::kUnknown;
      const uint32_t at = waiting.back();
      waiting.pop_back();
      if (!seen.emplace(at, true).second) continue;
      const RegexInstruction& i = program_.code[at];
      switch (i.op) {
        case Op::kSet:
        case Op::kRepeat: {
          const bool one = i.op == Op::kSet || (i.min <= 1 && i.max >= 1);
          const bool none = i.op == Op::kRepeat && i.min == 0;
          if (none) waiting.push_back(at + 1);
          if (!is_in(i.set, character) || (none && i.max == 0)) break;
          if (one && program_.code[followed(at + 1)].op == Op::kAccept) return Answer::kYes;
          unknown = true;
          break;
        }
        case Op::kSplit:
          waiting.push_back(i.x);
          waiting.push_back(i.y);
          break;
        case Op::kJump: waiting.push_back(i.x); break;
        case Op::kAssert:
          if (behind) return Answer::kUnknown;
          if (holds(i.assertion)) waiting.push_back(at + 1);
          break;
        case Op::kLook: {
          if (behind) return Answer::kUnknown;
          const Answer answer = look(at);
          if (answer == Answer::kUnknown) return answer;
          if ((answer == Answer::kYes) != i.negated) waiting.push_back(i.x);
          break;
        }
        case Op::kAtomic:
        case Op::kEnterLoop:
        case Op::kNextRound: return Answer::kUnknown;
        case Op::kAccept:
          if (!behind) return Answer::kYes;
          break;  // A look-behind consumes its character.
      }
    }
    return unknown ? Answer::kUnknown : Answer::kNo;
  }

  const RegexProgram& program_;
  uint32_t classes_;
  uint32_t line_break_;
  bool looks_back_ = false;
  size_t steps_ = 0;
  uint32_t before_ = kNothing;
  uint32_t next_ = kNothing;
  List targets_;
  std::vector<List> lists_;  // By state: the items, and the class of the character before them.
  std::map<List, uint16_t> states_;
};

}  // namespace

void add_regex_dfa(RegexProgram& program) {
  if (program.code.size() > kMaxRegexInstructions) return;
  DfaBuilder builder(program);
  if (!builder.run()) return;
  program.dfa_starts = std::move(builder.starts_);
  program.dfa_table = std::move(builder.table_);
}

}  // namespace tandem
