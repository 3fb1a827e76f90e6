#include "unicode/properties.h"

#include "unicode/tables.h"

namespace tandem {
namespace {

constexpr uint8_t kCategoryBits = 0x1f;
constexpr uint8_t kPunctuationBit = 0x20;
constexpr uint8_t kMarkBit = 0x40;
constexpr uint8_t kWordBit = 0x80;

uint8_t properties(char32_t c) {
  using namespace unicode_tables;
  const size_t block = c >> kPropertyShift;
  if (block < std::size(kPropertyIndex)) {
    return kPropertyBlocks[(size_t{kPropertyIndex[block]} << kPropertyShift) | (c & ((1u << kPropertyShift) - 1))];
  }
  for (const UpperRange& range : kPropertyUpper) {
    if (c >= range.first && c <= range.last) return range.value;
  }
  return 0;
}

bool is_number(uint8_t category) { return category >= kCategoryNd && category <= kCategoryNo; }

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

CharacterClass character_class(char32_t c) {
  if (is_white_space(c)) return kClassWhiteSpace;
  const uint8_t category = general_category(c);
  if (category == kCategoryLu || category == kCategoryLt) return kClassUpper;
  if (category == kCategoryLl) return kClassLower;
  if (category == kCategoryLm || category == kCategoryLo) return kClassOtherLetter;
  if (category >= kCategoryMn && category <= kCategoryMe) return kClassMark;
  return is_number(category) ? kClassNumber : kClassOther;
}

GeneralCategory general_category(char32_t c) { return static_cast<GeneralCategory>(properties(c) & kCategoryBits); }

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  // Rust's tables are newer than ours: two ranges of Unicode 17.
  return is_number(general_category(c)) || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

bool is_word_character(char32_t c) { return (properties(c) & kWordBit) != 0; }

bool is_punctuation(char32_t c) { return (properties(c) & kPunctuationBit) != 0; }

bool is_combining_mark(char32_t c) { return (properties(c) & kMarkBit) != 0; }

}  // namespace tandem
