// A compiled regular expression, as stored in tokenizer files and run by the matcher. Only regex*.cpp use it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/char_classes.h"
#include "tokenizer/regex_dfa.h"

namespace tandem {

// The numeric values of these enums are stored in files: never renumber, only append.
enum class RepeatMode : uint8_t { kGreedy = 0, kLazy = 1, kPossessive = 2 };
enum class RegexAssertion : uint8_t { kTextBegin = 0, kTextEnd = 1, kLineBegin = 2, kLineEnd = 3 };
inline constexpr uint32_t kUnbounded = 0xffffffffu;

struct RegexInstruction {
  enum class Op : uint8_t {
    kSet = 0,        // One character of the set.
    kRepeat = 1,     // `min` to `max` of them.
    kSplit = 2,      // Continues at `x`, and at `y` if that fails.
    kJump = 3,       // To `x`.
    kAssert = 4,     // `assertion`.
    kLook = 5,       // Runs what follows, up to its kAccept, as a condition; then continues at `x`.
    kAtomic = 6,     // The same, but consumes what it matched.
    kEnterLoop = 7,  // Remembers in slot `x` where a round of a loop began.
    kNextRound = 8,  // Back to `y`, unless the round of slot `x` matched nothing.
    kAccept = 9,
  };
  Op op = Op::kAccept;
  RepeatMode mode = RepeatMode::kGreedy;
  RegexAssertion assertion{};
  bool negated = false;
  bool behind = false;
  uint32_t set = 0;
  uint32_t min = 0;  // kLook behind: the length.
  uint32_t max = 0;
  uint32_t x = 0;
  uint32_t y = 0;
  // The members below are computed by find_first_bytes().
  // kSplit: what may begin at x and at y; kRepeat: what may follow. Indices into `firsts`.
  uint32_t first_x = 0;
  uint32_t first_y = 0;
  uint32_t branches = 0;    // kSplit: index into `branches`.
  bool ends_match = false;  // kRepeat: only the end of the pattern follows, so nothing is ever given back.
};

// A set of characters by their classes.
using ClassSet = std::vector<bool>;

// The bytes that a match may begin with; the last bit stands for the end of the text.
inline constexpr size_t kEndOfTextBit = 256;
using FirstBytes = std::bitset<257>;

// By the next byte: where a chain of splits leads, past the alternatives that cannot begin with it.
using Branches = std::array<uint16_t, kEndOfTextBit + 1>;

struct RegexProgram {
  std::string pattern;  // For messages.
  std::vector<ClassRange> ranges;
  CharClasses classes;
  std::vector<RegexInstruction> code;
  std::vector<ClassSet> sets;
  uint32_t slots = 0;
  std::vector<uint16_t> dfa_table;  // Empty: the pattern has no automaton of a reasonable size.
  std::vector<uint16_t> dfa_starts;
  RegexDfa dfa;

  // Computed by find_first_bytes().
  std::vector<FirstBytes> firsts;
  std::vector<Branches> branches;
  FirstBytes begins;         // Of the whole pattern.
  bool can_be_empty = true;  // Then `begins` has all bits.
};

// The limit for compiled programs and for those read from a file.
inline constexpr size_t kMaxRegexInstructions = 8192;
inline constexpr size_t kMaxRegexNesting = 80;  // Of conditions and atomic groups.
inline constexpr uint32_t kMaxLookbehind = 255;

// For messages: its beginning if it is long.
std::string shown_pattern(std::string_view pattern);
void find_first_bytes(RegexProgram& program);

// The bytes of a tokenizer file. Any bytes are safe to read; tokenizer/regex/ writes them.
Result<RegexProgram> read_regex(std::string_view bytes);

}  // namespace tandem
