#include "unicode/properties.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "unicode/additions.h"
#include "unicode/code_point_ranges.h"

namespace tandem {
namespace {

// Marks that are newer than Unicode 9. Sorted.
constexpr CodePointRange kLaterMarks[] = {
    {0x07fd, 0x07fd},   {0x0897, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},   {0x0afa, 0x0aff},
    {0x0b55, 0x0b55},   {0x0c04, 0x0c04},   {0x0c3c, 0x0c3c},   {0x0cf3, 0x0cf3},   {0x0d00, 0x0d00},
    {0x0d3b, 0x0d3c},   {0x0d81, 0x0d81},   {0x0eba, 0x0eba},   {0x0ece, 0x0ece},   {0x1715, 0x1715},
    {0x180f, 0x180f},   {0x1abf, 0x1add},   {0x1ae0, 0x1aeb},   {0x1cf7, 0x1cf7},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0xa8ff, 0xa8ff},   {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac},
    {0x10efa, 0x10eff}, {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x11073, 0x11074},
    {0x110c2, 0x110c2}, {0x11145, 0x11146}, {0x111c9, 0x111c9}, {0x111ce, 0x111cf}, {0x11241, 0x11241},
    {0x1133b, 0x1133b}, {0x113b8, 0x113e2}, {0x1145e, 0x1145e}, {0x1182c, 0x1183a}, {0x11930, 0x11943},
    {0x119d1, 0x119e4}, {0x11a01, 0x11a0a}, {0x11a33, 0x11a3e}, {0x11a47, 0x11a47}, {0x11a51, 0x11a5b},
    {0x11a8a, 0x11a99}, {0x11b60, 0x11b67}, {0x11d31, 0x11d47}, {0x11d8a, 0x11d97}, {0x11ef3, 0x11ef6},
    {0x11f00, 0x11f03}, {0x11f34, 0x11f42}, {0x11f5a, 0x11f5a}, {0x13440, 0x13440}, {0x13447, 0x13455},
    {0x1611e, 0x1612f}, {0x16f4f, 0x16f4f}, {0x16f7f, 0x16f87}, {0x16fe4, 0x16fe4}, {0x16ff0, 0x16ff1},
    {0x1cf00, 0x1cf46}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef},
    {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef}, {0x1e6e3, 0x1e6f5},
};

// Punctuation that is newer than Unicode 8. Sorted.
constexpr CodePointRange kLaterPunctuation[] = {
    {0x061d, 0x061d},   {0x09fd, 0x09fd},   {0x0a76, 0x0a76},   {0x0c77, 0x0c77},   {0x0c84, 0x0c84},
    {0x1b4e, 0x1b4f},   {0x1b7d, 0x1b7f},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},   {0x10d6e, 0x10d6e},
    {0x10ead, 0x10ead}, {0x10ed0, 0x10ed8}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x113d4, 0x113d8},
    {0x1144b, 0x1144f}, {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
    {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46}, {0x11a9a, 0x11a9c},
    {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11be1, 0x11be1}, {0x11c41, 0x11c45}, {0x11c70, 0x11c71},
    {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff}, {0x12ff1, 0x12ff2}, {0x16d6d, 0x16d6f},
    {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e5ff, 0x1e5ff}, {0x1e95e, 0x1e95f},
};

CharacterClass class_of_name(const char* category) {
  switch (category[0]) {
    case 'L':
      return category[1] == 'u' || category[1] == 't' ? kClassUpper
             : category[1] == 'l'                     ? kClassLower
                                                      : kClassOtherLetter;
    case 'M': return kClassMark;
    case 'N': return kClassNumber;
    default: return kClassOther;
  }
}

CharacterClass look_up_class(char32_t c) {
  if (is_white_space(c)) return kClassWhiteSpace;
  if (const UnicodeAddition* addition = find_unicode_addition(c)) return class_of_name(addition->category);
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT: return kClassUpper;
    case UTF8PROC_CATEGORY_LL: return kClassLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return kClassOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return kClassMark;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return kClassNumber;
    default: return kClassOther;
  }
}

uint8_t look_up_category(char32_t c) {
  if (const UnicodeAddition* addition = find_unicode_addition(c)) {
    // Letters, marks and numbers only.
    constexpr std::pair<std::string_view, utf8proc_category_t> kNames[] = {
        {"Lu", UTF8PROC_CATEGORY_LU}, {"Ll", UTF8PROC_CATEGORY_LL}, {"Lt", UTF8PROC_CATEGORY_LT},
        {"Lm", UTF8PROC_CATEGORY_LM}, {"Lo", UTF8PROC_CATEGORY_LO}, {"Mn", UTF8PROC_CATEGORY_MN},
        {"Mc", UTF8PROC_CATEGORY_MC}, {"Me", UTF8PROC_CATEGORY_ME}, {"Nd", UTF8PROC_CATEGORY_ND},
        {"Nl", UTF8PROC_CATEGORY_NL}, {"No", UTF8PROC_CATEGORY_NO}};
    for (const auto& [name, category] : kNames) {
      if (name == addition->category) return static_cast<uint8_t>(category);
    }
  }
  return static_cast<uint8_t>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
}

// The classes of the first 64 Ki characters, which are nearly all that texts have.
const std::array<CharacterClass, 0x10000>& basic_classes() {
  static const auto table = [] {
    std::array<CharacterClass, 0x10000> classes{};
    for (char32_t c = 0; c < classes.size(); ++c) classes[c] = look_up_class(c);
    return classes;
  }();
  return table;
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

CharacterClass character_class(char32_t c) {
  static const auto& basic = basic_classes();
  if (c < basic.size()) return basic[c];
  if (c >= 0x20000 && c < 0x2a6e0) return kClassOtherLetter;  // Chinese characters.
  return look_up_class(c);
}

uint8_t general_category(char32_t c) {
  static const auto basic = [] {
    std::array<uint8_t, 0x10000> categories{};
    for (char32_t i = 0; i < categories.size(); ++i) categories[i] = look_up_category(i);
    return categories;
  }();
  return c < basic.size() ? basic[c] : look_up_category(c);
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  // Rust's tables are newer than unicode_additions.h: two ranges of Unicode 17.
  return character_class(c) == kClassNumber || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

bool is_word_character(char32_t c) {
  const CharacterClass kind = character_class(c);
  if ((kind & (kClassLetter | kClassMark)) != 0) return true;
  if (kind == kClassNumber) {
    if (const UnicodeAddition* addition = find_unicode_addition(c)) return addition->category[1] != 'o';
    return utf8proc_category(static_cast<utf8proc_int32_t>(c)) != UTF8PROC_CATEGORY_NO;
  }
  // Symbols that Unicode calls alphabetic (circled and squared letters), and the joiners.
  return utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_PC || (c >= 0x24b6 && c <= 0x24e9) ||
         (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189) ||
         c == 0x200c || c == 0x200d;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
  }
  if (c == 0x166d || c == 0x111c9) return true;  // No longer.
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return !is_in(kLaterPunctuation, c);
    default: return false;
  }
}

bool is_combining_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1cf2 || c == 0x1cf3) return true;  // No longer.
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return !is_in(kLaterMarks, c);
    default: return false;
  }
}

}  // namespace tandem
