#include "tokenizer/regex_matcher.h"

#include <algorithm>

#include "unicode/utf8.h"

namespace tandem {
namespace {

using Op = RegexInstruction::Op;

// Patterns of real tokenizers take three to ten steps per byte.
constexpr uint64_t kQuickStepsPerByte = 64;
constexpr uint64_t kQuickSteps = 4096;
// The memory of what failed: two bits per choice of the pattern and byte of the text.
constexpr size_t kMaxMemoryRows = 256;
constexpr size_t kMaxMemoryCells = size_t{1} << 31;
constexpr size_t kMaxFramesPerByte = 4;
constexpr size_t kMaxFrames = 4096;

}  // namespace

RegexMachine::RegexMachine(const RegexProgram& program)
    : program_(program), slots_(program.slots, 0), memory_index_(program.code.size(), 0) {
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Op op = program.code[i].op;
    if (op == Op::kSplit || op == Op::kRepeat || op == Op::kLook) memory_index_[i] = memory_rows_++;
  }
}

void RegexMachine::start(std::string_view text, WorkBudget& budget) {
  text_ = text;
  budget_ = &budget;
  quick_left_ = kQuickSteps + kQuickStepsPerByte * text.size();
  careful_ = false;
  may_remember_ =
      program_.slots == 0 && memory_rows_ <= kMaxMemoryRows && memory_rows_ * (text.size() + 1) <= kMaxMemoryCells;
  max_frames_ = kMaxFrames + kMaxFramesPerByte * text.size();
}

RegexMachine::Outcome RegexMachine::match(size_t begin, size_t& end) {
  Step step = match_once(begin, end);
  if (step == Step::kOutOfSteps && !careful_ && may_remember_ && quick_left_ == 0 && start_remembering()) {
    step = match_once(begin, end);
  }
  if (step == Step::kOutOfSteps) return Outcome::kTooLong;
  return step == Step::kMatch ? Outcome::kMatch : Outcome::kFail;
}

RegexMachine::Step RegexMachine::match_once(size_t begin, size_t& end) {
  frames_.clear();
  const bool is_quick = !careful_ && may_remember_;
  const uint64_t given = is_quick ? std::min(quick_left_, budget_->left()) : budget_->left();
  allowance_ = given;
  const Step step = careful_ ? run<true>(0, begin, false, end) : run<false>(0, begin, false, end);
  if (is_quick) quick_left_ -= given - allowance_;
  if (!budget_->spend(given - allowance_)) return Step::kOutOfSteps;
  return step;
}

bool RegexMachine::start_remembering() {
  const size_t cells = memory_rows_ * (text_.size() + 1);
  if (!budget_->spend(cells / 32)) return false;
  failed_.assign(cells, false);
  succeeded_.assign(cells, false);
  careful_ = true;
  return true;
}

inline bool RegexMachine::spend(uint64_t steps) {
  if (steps > allowance_) {
    allowance_ = 0;
    return false;
  }
  allowance_ -= steps;
  return true;
}

inline RegexMachine::Step RegexMachine::push(const Frame& frame) {
  if (frames_.size() >= max_frames_) {
    allowance_ = 0;
    return Step::kOutOfSteps;
  }
  frames_.push_back(frame);
  return Step::kGoOn;
}

// Of FirstBytes and Branches.
inline size_t RegexMachine::next_bit(size_t position) const {
  return position < text_.size() ? static_cast<uint8_t>(text_[position]) : kEndOfTextBit;
}

size_t RegexMachine::step_back(size_t position) const {
  do --position;
  while (position > 0 && (static_cast<uint8_t>(text_[position]) & 0xc0) == 0x80);
  return position;
}

bool RegexMachine::take(const ClassSet& set, size_t& position) const {
  if (position >= text_.size()) return false;
  const auto byte = static_cast<uint8_t>(text_[position]);
  if (byte < 0x80) {
    if (!set[program_.classes.of_ascii(byte)]) return false;
    ++position;
    return true;
  }
  const Utf8Sequence sequence = next_valid_utf8(text_.substr(position));
  if (!set[program_.classes.of(sequence.code_point)]) return false;
  position += sequence.length;
  return true;
}

uint32_t RegexMachine::take_run(const ClassSet& set, uint32_t most, size_t& position) const {
  const char* const text = text_.data();
  const size_t size = text_.size();
  size_t at = position;
  uint32_t count = 0;
  for (; count < most && at < size; ++count) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (byte < 0x80) {
      if (!set[program_.classes.of_ascii(byte)]) break;
      ++at;
    } else {
      const Utf8Sequence sequence = next_valid_utf8(text_.substr(at));
      if (!set[program_.classes.of(sequence.code_point)]) break;
      at += sequence.length;
    }
  }
  position = at;
  return count;
}

bool RegexMachine::holds(RegexAssertion assertion, size_t position) const {
  switch (assertion) {
    case RegexAssertion::kTextBegin: return position == 0;
    case RegexAssertion::kTextEnd: return position == text_.size();
    case RegexAssertion::kLineBegin: return position == 0 || (text_[position - 1] == '\n' && position < text_.size());
    case RegexAssertion::kLineEnd: return position == text_.size() || text_[position] == '\n';
  }
  return false;
}

void RegexMachine::set_failed(uint32_t at, size_t from, size_t to) {
  for (size_t position = from; position <= to; ++position) failed_[cell(at, position)] = true;
}

// A condition holds, so it holds from each position on the way.
void RegexMachine::set_succeeded(const Run& run) {
  for (size_t i = run.base; i < frames_.size(); ++i) {
    const Frame& frame = frames_[i];
    const bool is_choice = frame.undo == Undo::kFailed;
    const bool is_repeat = !is_choice && frame.undo != Undo::kGoTo && frame.undo != Undo::kSlot;
    if (!is_choice && !(is_repeat && is_remembered(frame.at))) continue;
    const size_t from = is_choice ? frame.high : frame.low;
    for (size_t position = from; position <= frame.high; ++position) succeeded_[cell(frame.at, position)] = true;
  }
}

// What is remembered about continuing from here; kGoOn: nothing.
RegexMachine::Step RegexMachine::known(const Run& run, uint32_t at, size_t position) const {
  if (failed_[cell(at, position)]) return Step::kFail;
  return run.is_condition && succeeded_[cell(at, position)] ? Step::kMatch : Step::kGoOn;
}

template <bool kCareful>
RegexMachine::Step RegexMachine::split(const Run& run, uint32_t& at, size_t position) {
  if (kCareful) {
    if (const Step step = known(run, at, position); step != Step::kGoOn) return step;
    if (push({Undo::kFailed, at, 0, position, 0}) != Step::kGoOn) return Step::kOutOfSteps;
  }
  const size_t bit = next_bit(position);
  const uint32_t to = program_.branches[program_.code[at].branches][bit];
  const RegexInstruction& i = program_.code[to];
  at = to;
  if (i.op != Op::kSplit) return Step::kGoOn;
  if (!program_.firsts[i.first_x][bit]) return Step::kGoOn;  // A split further up; it is next.
  if (program_.firsts[i.first_y][bit]) {
    if (push({Undo::kGoTo, i.y, 0, position, 0}) != Step::kGoOn) return Step::kOutOfSteps;
  }
  at = i.x;
  return Step::kGoOn;
}

// Consumes as many characters as allowed, or as few. A frame records the alternatives.
template <bool kCareful>
RegexMachine::Step RegexMachine::repeat(const Run& run, uint32_t at, size_t& position) {
  const RegexInstruction& i = program_.code[at];
  const ClassSet& set = program_.sets[i.set];
  const bool is_lazy = i.mode == RepeatMode::kLazy;
  const bool is_possessive = i.mode == RepeatMode::kPossessive;
  const size_t begin = position;
  // Without an upper bound, the continuation depends on the position alone, once the minimum has been consumed.
  const bool remembers = kCareful && is_remembered(at);
  if (kCareful && !remembers) {
    if (const Step step = known(run, at, begin); step != Step::kGoOn) return step;
    if (push({Undo::kFailed, at, 0, begin, 0}) != Step::kGoOn) return Step::kOutOfSteps;
  }
  uint32_t count = take_run(set, i.min, position);
  const size_t low = position;
  Step step = count < i.min ? Step::kFail : remembers ? known(run, at, position) : Step::kGoOn;
  if (step == Step::kGoOn && !is_lazy && !remembers) count += take_run(set, i.max - count, position);
  while (remembers && step == Step::kGoOn && !is_lazy && take(set, position)) {
    ++count;
    step = known(run, at, position);
  }
  if (!spend(position - begin)) return Step::kOutOfSteps;
  if (step == Step::kFail && (count <= i.min || position == low)) return Step::kFail;
  if (step == Step::kFail) {
    if (is_possessive) {
      set_failed(at, low, position);
      return Step::kFail;
    }
    position = step_back(position);  // From the next position on it is known to fail.
    step = Step::kGoOn;
  }
  bool gives_back = !is_possessive && position > low && !i.ends_match;
  // "X?": the only alternative is known at once.
  if (gives_back && i.max == 1) gives_back = program_.firsts[i.first_x][next_bit(low)];
  const bool needs_frame = remembers || is_lazy || gives_back;
  if (!needs_frame) return step;
  const Undo undo = is_lazy ? Undo::kLazy : is_possessive ? Undo::kPossessive : Undo::kGreedy;
  const uint32_t left = i.max == kUnbounded ? kUnbounded : i.max - count;
  const Step pushed = push({undo, at, low, position, left});
  return pushed == Step::kGoOn ? step : pushed;
}

template <bool kCareful>
RegexMachine::Step RegexMachine::take_one_more(const Run& run, Frame& frame, size_t& position) {
  const RegexInstruction& i = program_.code[frame.at];
  const bool remembers = kCareful && is_remembered(frame.at);
  position = frame.high;
  Step step = frame.left > 0 && take(program_.sets[i.set], position) ? Step::kGoOn : Step::kFail;
  if (step == Step::kGoOn && remembers) step = known(run, frame.at, position);
  if (step == Step::kFail) {
    if (remembers) set_failed(frame.at, frame.low, frame.high);
    return step;
  }
  frame.high = position;
  if (frame.left != kUnbounded) --frame.left;
  return step;
}

// Undoes choices until one has an alternative.
template <bool kCareful>
RegexMachine::Step RegexMachine::go_back(const Run& run, uint32_t& at, size_t& position) {
  while (frames_.size() > run.base) {
    if (!spend(1)) return Step::kOutOfSteps;
    Frame& frame = frames_.back();
    switch (frame.undo) {
      case Undo::kGoTo:
        at = frame.at;
        position = frame.high;
        frames_.pop_back();
        return Step::kGoOn;
      case Undo::kGreedy: {
        const bool remembers = kCareful && is_remembered(frame.at);
        if (remembers) set_failed(frame.at, frame.high, frame.high);
        if (frame.high == frame.low) break;
        frame.high = step_back(frame.high);
        at = frame.at + 1;
        position = frame.high;
        if (!program_.firsts[program_.code[frame.at].first_x][next_bit(position)]) continue;
        if (frame.high == frame.low && !remembers) frames_.pop_back();
        return Step::kGoOn;
      }
      case Undo::kLazy: {
        at = frame.at + 1;
        const Step step = take_one_more<kCareful>(run, frame, position);
        if (step != Step::kFail) return step;
        break;
      }
      case Undo::kSlot: slots_[frame.at] = frame.high; break;
      case Undo::kFailed: set_failed(frame.at, frame.high, frame.high); break;
      case Undo::kPossessive: set_failed(frame.at, frame.low, frame.high); break;
    }
    frames_.pop_back();
  }
  return Step::kFail;
}

template <bool kCareful>
RegexMachine::Step RegexMachine::look(uint32_t at, size_t position) {
  const RegexInstruction& i = program_.code[at];
  const Run as_condition{0, true};
  Step step = kCareful ? known(as_condition, at, position) : Step::kGoOn;
  if (step == Step::kGoOn) {
    size_t begin = position;
    uint32_t behind = i.behind ? i.min : 0;
    for (; behind > 0 && begin > 0; --behind) begin = step_back(begin);
    if (!spend(position - begin)) return Step::kOutOfSteps;
    size_t end = 0;
    step = behind > 0 ? Step::kFail : run<kCareful>(at + 1, begin, true, end);
    if (step == Step::kOutOfSteps) return step;
    if (kCareful) (step == Step::kMatch ? succeeded_ : failed_)[cell(at, position)] = true;
  }
  return (step == Step::kMatch) != i.negated ? Step::kGoOn : Step::kFail;
}

template <bool kCareful>
RegexMachine::Step RegexMachine::run(uint32_t at, size_t position, bool is_condition, size_t& end) {
  const Run run{frames_.size(), is_condition};
  while (true) {
    if (!spend(1)) return Step::kOutOfSteps;
    const RegexInstruction& i = program_.code[at];
    Step step = Step::kGoOn;
    switch (i.op) {
      case Op::kSet:
        step = take(program_.sets[i.set], position) ? Step::kGoOn : Step::kFail;
        ++at;
        break;
      case Op::kRepeat: step = repeat<kCareful>(run, at++, position); break;
      case Op::kSplit: step = split<kCareful>(run, at, position); break;
      case Op::kJump: at = i.x; break;
      case Op::kAssert:
        step = holds(i.assertion, position) ? Step::kGoOn : Step::kFail;
        ++at;
        break;
      case Op::kLook:
        step = look<kCareful>(at, position);
        at = i.x;
        break;
      case Op::kAtomic:
        step = this->run<kCareful>(at + 1, position, false, position);
        if (step == Step::kMatch) step = Step::kGoOn;
        at = i.x;
        break;
      case Op::kEnterLoop:
        step = push({Undo::kSlot, i.x, 0, slots_[i.x], 0});
        slots_[i.x] = position;
        ++at;
        break;
      case Op::kNextRound: at = slots_[i.x] == position ? at + 1 : i.y; break;
      case Op::kAccept: step = Step::kMatch; break;
    }
    if (step == Step::kFail) step = go_back<kCareful>(run, at, position);
    if (step == Step::kGoOn) continue;
    if (step == Step::kMatch) {
      if (kCareful && is_condition) set_succeeded(run);
      frames_.resize(run.base);
      end = position;
    }
    return step;
  }
}

}  // namespace tandem
