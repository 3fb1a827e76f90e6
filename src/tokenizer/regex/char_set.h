// Sets of characters, as the classes of regular expressions name them.
#pragma once

#include <string_view>
#include <vector>

#include "unicode/code_point_ranges.h"

namespace tandem {

class CharSet {
 public:
  void add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  // A general category ("Lu") or a group of them ("L"), or its complement. False if there is none of this name.
  bool add_category(std::string_view name, bool negated);
  // \s, \S, \w and \h of Oniguruma.
  void add_white_space();
  void add_others_than_white_space();
  void add_word_characters(bool in_class);
  void add_hex_digits();
  void negate() { negated_ = !negated_; }
  // With `any_case`, a character is in the set if one that differs only in case is. Call it after adding everything.
  void finish(bool any_case);

  // Sorted and not adjacent. Valid after finish().
  const std::vector<CodePointRange>& ranges() const { return ranges_; }

 private:
  void merge();
  bool contains(char32_t c) const;
  void add_other_cases();

  std::vector<CodePointRange> ranges_;
  bool negated_ = false;
};

}  // namespace tandem
