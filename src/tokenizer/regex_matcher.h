// Runs the program of a regular expression on a text.
//
// A backtracking machine. Up to kQuickStepsPerByte steps per byte of the text it keeps no record. From then on it is
// careful: it remembers for each choice and text position whether continuing from there failed (or, in a condition,
// succeeded), and never goes there again. What follows a choice does not depend on how it was reached, so that holds
// for all later matches in the text as well. That makes all of them together linear. Not remembered are rounds of loops
// that can be empty, and the insides of atomic groups when they succeed: such patterns end with the budget.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/regex_program.h"
#include "tokenizer/work_budget.h"

namespace tandem {

class RegexMachine {
 public:
  explicit RegexMachine(const RegexProgram& program);

  // The text must be valid UTF-8.
  void start(std::string_view text, WorkBudget& budget);
  enum class Outcome : uint8_t { kFail, kMatch, kTooLong };
  // Matches at `begin`, and sets `end`.
  Outcome match(size_t begin, size_t& end);

 private:
  enum class Step : uint8_t { kGoOn, kFail, kMatch, kOutOfSteps };
  enum class Undo : uint8_t {
    kGoTo,        // Continue at another instruction.
    kGreedy,      // Give one back.
    kLazy,        // Take one more.
    kSlot,        // Restore a slot.
    kFailed,      // Remember that it failed from here.
    kPossessive,  // The same for all positions of a repeat.
  };
  struct Frame {
    Undo undo;
    uint32_t at;    // An instruction, or a slot.
    size_t low;     // Repeats: where the shortest match ends.
    size_t high;    // The position; repeats: where it ends now; kSlot: what was there.
    uint32_t left;  // kLazy: how many more it may take.
  };
  // A match in progress: of the pattern, of a condition or of an atomic group.
  struct Run {
    size_t base;        // Of its frames.
    bool is_condition;  // Only whether it matches is needed.
  };

  Step match_once(size_t begin, size_t& end);
  template <bool kCareful>
  Step run(uint32_t at, size_t position, bool is_condition, size_t& end);
  template <bool kCareful>
  Step split(const Run& run, uint32_t& at, size_t position);
  template <bool kCareful>
  Step repeat(const Run& run, uint32_t at, size_t& position);
  template <bool kCareful>
  Step look(uint32_t at, size_t position);
  template <bool kCareful>
  Step go_back(const Run& run, uint32_t& at, size_t& position);
  template <bool kCareful>
  Step take_one_more(const Run& run, Frame& frame, size_t& position);
  Step known(const Run& run, uint32_t at, size_t position) const;

  bool holds(RegexAssertion assertion, size_t position) const;
  size_t next_bit(size_t position) const;
  size_t step_back(size_t position) const;
  bool take(const ClassSet& set, size_t& position) const;
  uint32_t take_run(const ClassSet& set, uint32_t most, size_t& position) const;
  bool spend(uint64_t steps);
  Step push(const Frame& frame);
  bool is_remembered(uint32_t at) const { return program_.code[at].max == kUnbounded; }

  bool start_remembering();
  size_t cell(uint32_t at, size_t position) const { return memory_index_[at] * (text_.size() + 1) + position; }
  void set_failed(uint32_t at, size_t from, size_t to);
  void set_succeeded(const Run& run);

  const RegexProgram& program_;
  std::string_view text_;
  WorkBudget* budget_ = nullptr;
  uint64_t quick_left_ = 0;
  uint64_t allowance_ = 0;  // Of the current match.
  bool careful_ = false;
  bool may_remember_ = false;
  size_t max_frames_ = 0;
  std::vector<Frame> frames_;
  std::vector<size_t> slots_;
  std::vector<uint32_t> memory_index_;  // By instruction: the row of its cells.
  uint32_t memory_rows_ = 0;
  std::vector<bool> failed_;
  std::vector<bool> succeeded_;
};

}  // namespace tandem
