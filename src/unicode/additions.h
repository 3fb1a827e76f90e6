// Letters, marks and numbers that Unicode 15, 15.1 and 16 added.
//
// Tokenizers are defined by the tables of the library that made them, and those are of Unicode 16; the system's
// utf8proc is often older.
#pragma once

#include <span>

namespace tandem {

struct UnicodeAddition {
  char32_t first;
  char32_t last;
  char category[3];  // General category: "Lo".
};

std::span<const UnicodeAddition> unicode_additions();
// The row of a character, or nothing.
const UnicodeAddition* find_unicode_addition(char32_t code_point);

}  // namespace tandem
