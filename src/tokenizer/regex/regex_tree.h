// A regular expression between its pattern and the program stored in tokenizer files. Only this folder uses it.
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
  Kind kind = Kind::kConcat;  // Without children it matches the empty string.
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

// Reads Oniguruma's syntax. kUnsupported names a construct that Oniguruma might read differently.
Result<RegexTree> parse_regex(std::string_view pattern);
// How many characters a node matches, if that is constant and not too many for a look-behind.
std::optional<uint32_t> fixed_length(const RegexNode& node);
// The instructions, and the classes of characters that they distinguish.
Result<RegexProgram> write_regex_program(RegexTree tree, std::string_view pattern);
Status find_classes(std::span<const CharSet> sets, RegexProgram& program);
// Adds the automaton to the program, if it has one of a reasonable size.
void add_regex_dfa(RegexProgram& program);

}  // namespace tandem
