// The layout of compiled regular expressions in a tokenizer file, for the writer and the reader.
//
// Little-endian, without padding:
//   u32 × 9       kRegexFormat, then the numbers of: bytes of the pattern, ranges, classes, sets, instructions, slots,
//                 start states, states
//   bytes         the pattern, for messages
//   u32 × ranges  the first character of each range of characters; the first is 0, and they rise
//   u16 × ranges  the class of its characters
//   bits          per set, a bit per class, from the lowest bit of the first byte; whole bytes per set
//   24 bytes × instructions   u8 op, mode, assertion and flags; u32 set, min, max, x, y (regex_program.h)
//   u16 × start states        one, or one by the class of the character before a match and one for the beginning of
//                             the text; none without an automaton
//   u16 × states × (classes + 1)   RegexDfa's transitions; the last of a state is for the end of the text
#pragma once

#include <cstdint>

namespace tandem {

inline constexpr uint32_t kRegexFormat = 1;
inline constexpr uint32_t kRegexNegated = 1;
inline constexpr uint32_t kRegexBehind = 2;

}  // namespace tandem
