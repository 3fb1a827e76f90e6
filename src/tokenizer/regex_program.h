// A regular expression on its way from the pattern to what the matcher runs. Only regex*.cpp use it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "unicode/char_set.h"

namespace tandem {

enum class RepeatMode : uint8_t { kGreedy, kLazy, kPossessive };
enum class RegexAssertion : uint8_t { kTextBegin, kTextEnd, kLineBegin, kLineEnd };
inline constexpr uint32_t kUnbounded = 0xffffffffu;

// The pattern as a tree.
struct RegexNode {
  enum class Kind : uint8_t { kSet, kConcat, kAlternate, kRepeat, kLookahead, kLookbehind, kAtomic, kAssert };
  Kind kind = Kind::kConcat;  // Without children it matches nothing at all, everywhere.
  RepeatMode mode = RepeatMode::kGreedy;
  RegexAssertion assertion{};
  bool negated = false;  // Look-around.
  uint32_t set = 0;      // Index into the sets.
  uint32_t min = 0;      // Of a repeat.
  uint32_t max = 0;
  uint32_t length = 0;  // Of a look-behind, in characters.
  std::vector<RegexNode> children = {};
};

struct RegexTree {
  RegexNode root;
  std::vector<CharSet> sets;
};

struct RegexInstruction {
  enum class Op : uint8_t {
    kSet,        // One character of the set.
    kRepeat,     // `min` to `max` of them.
    kSplit,      // Goes on at `x`, and at `y` if that fails.
    kJump,       // To `x`.
    kAssert,     // `assertion`.
    kLook,       // Runs what follows, up to its kAccept, as a condition; then goes on at `x`.
    kAtomic,     // The same, but takes what it matched.
    kEnterLoop,  // Remembers in slot `x` where a round of a loop began.
    kNextRound,  // Back to `y`, unless the round of slot `x` matched nothing.
    kAccept,
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
  // kSplit: what may begin at x and at y; kRepeat: what may follow. Indices into `firsts`.
  uint32_t first_x = 0;
  uint32_t first_y = 0;
  uint32_t branches = 0;    // kSplit: index into `branches`.
  bool ends_match = false;  // kRepeat: only the end of the pattern follows, so that nothing is ever given back.
};

// The bytes that a match may begin with; the last bit stands for the end of the text.
inline constexpr size_t kEndOfTextBit = 256;
using FirstBytes = std::bitset<257>;

// By the next byte: where a chain of splits leads, past the alternatives that cannot begin with it.
using Branches = std::array<uint16_t, kEndOfTextBit + 1>;

struct RegexProgram {
  std::vector<RegexInstruction> code;
  std::vector<CharSet> sets;
  std::vector<FirstBytes> firsts;
  std::vector<Branches> branches;
  FirstBytes begins;         // Of the whole pattern.
  bool can_be_empty = true;  // Then `begins` has all bits.
  uint32_t slots = 0;
};

// For messages: its beginning if it is long.
std::string shown_pattern(std::string_view pattern);
// Reads Oniguruma's syntax. kUnsupported names what is not known to be read the same way.
Result<RegexTree> parse_regex(std::string_view pattern);
// How many characters a node takes, if that is always the same, and not too many for a look-behind.
std::optional<uint32_t> fixed_length(const RegexNode& node);
Result<RegexProgram> compile_regex(RegexTree tree, std::string_view pattern);

}  // namespace tandem
