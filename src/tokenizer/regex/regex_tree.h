// A regular expression on its way from the pattern to the program that tokenizer files hold. Only this folder uses it.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/regex/char_set.h"
#include "tokenizer/regex_program.h"

namespace tandem {

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

// Reads Oniguruma's syntax. kUnsupported names what is not known to be read the same way.
Result<RegexTree> parse_regex(std::string_view pattern);
// How many characters a node takes, if that is always the same, and not too many for a look-behind.
std::optional<uint32_t> fixed_length(const RegexNode& node);
// The instructions, and the classes of characters that they distinguish.
Result<RegexProgram> write_regex_program(RegexTree tree, std::string_view pattern);
Status find_classes(std::span<const CharSet> sets, RegexProgram& program);
// Gives the program its automaton, if it has one of a reasonable size.
void add_regex_dfa(RegexProgram& program);

}  // namespace tandem
