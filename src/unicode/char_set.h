// Sets of characters, as the classes of regular expressions name them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "unicode/code_point_ranges.h"

namespace tandem {

class CharSet {
 public:
  void add(char32_t first, char32_t last);
  // A general category ("Lu") or a group of them ("L"), or all others. False: there is none of this name.
  bool add_category(std::string_view name, bool negated);
  // \s, \S, \w and \h of Oniguruma.
  void add_white_space();
  void add_others_than_white_space();
  void add_word_characters(bool in_class);
  void add_hex_digits();
  void negate() { negated_ = !negated_; }
  // With `any_case`, a character is in the set if one that differs in case only is. Call once all is added.
  void finish(bool any_case);

  bool contains(char32_t c) const { return c < 0x80 ? (ascii_[c >> 6] >> (c & 63) & 1) != 0 : contains_int16(c); }
  // Whether a character whose UTF-8 begins with this byte can be in the set. May say yes too often.
  bool may_begin_with(uint8_t byte) const;

 private:
  bool contains_int16(char32_t c) const;
  bool has_member(char32_t c) const;

  std::vector<CodePointRange> ranges_;  // Sorted by finish().
  uint32_t categories_ = 0;             // A bit per general category.
  bool negated_ = false;
  bool any_case_ = false;
  std::array<uint64_t, 2> ascii_{};
};

}  // namespace tandem
