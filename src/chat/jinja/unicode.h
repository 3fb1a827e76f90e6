// Characters as Python's str sees them: strings are UTF-8 in memory, and code points to a template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::jinja {

// Of valid UTF-8.
size_t count_code_points(std::string_view text);
std::u32string to_code_points(std::string_view text);
std::string to_utf8(std::u32string_view code_points);
void append_code_point(std::string& text, char32_t c);
// The first byte that is not part of valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view bytes);
// The byte where the code point of this number begins (at most its length).
size_t byte_offset(std::string_view text, size_t code_point);

bool is_space(char32_t c);
bool is_line_break(char32_t c);  // As str.splitlines() has them; \r\n is one.
bool is_digit(char32_t c);       // Only what is a decimal digit in some script.
bool is_alpha(char32_t c);
bool is_printable(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
inline bool is_word(char32_t c) { return c == '_' || is_alpha(c) || is_digit(c); }

// Full case mapping: one character may become several.
std::u32string upper(std::u32string_view text);
std::u32string lower(std::u32string_view text);
std::u32string capitalize(std::u32string_view text);
std::u32string title(std::u32string_view text);

// White space at both ends, as a regular expression's \s and str.strip() see it. `chars` null: white space.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);

// Tables, made by tests/tools/make_jinja_unicode.py.
struct CodeRange {
  char32_t first;
  char32_t last;
};
struct CaseRange {
  char32_t first;
  char32_t last;
  int32_t step;  // Every code point of the range, or every second.
  int32_t delta;
};
struct SpecialCase {
  char32_t from;
  char32_t to[3];
};
struct CodeRanges {
  const CodeRange* data;
  size_t count;
};
struct CaseRanges {
  const CaseRange* data;
  size_t count;
};
struct SpecialCases {
  const SpecialCase* data;
  size_t count;
};
CodeRanges alpha_ranges();
CodeRanges digit_ranges();
CodeRanges unprintable_ranges();
CaseRanges to_upper_ranges();
CaseRanges to_lower_ranges();
SpecialCases upper_specials();

}  // namespace tandem::jinja
