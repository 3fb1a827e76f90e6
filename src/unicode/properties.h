// The few Unicode properties and the normal forms that tokenizers need, from our own tables: ids do not depend on what
// a distribution has installed.
//
// Each function follows the tables of the library that tokenizer.json is written for. They have several versions of
// Unicode: 9 for the normal forms and marks, 8 for punctuation, 16 for words and categories, 17 for numbers and lower
// case. tools/unicode/make_unicode_tables.py generates the tables and documents their sources.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

// White_Space: 25 code points, stable since Unicode 6.3.
bool is_white_space(char32_t code_point);
// General category Nd, Nl or No (Rust's char::is_numeric): digits, and also "½" or "Ⅷ".
bool is_numeric(char32_t code_point);
// \w of the Rust regex crate: Alphabetic, marks, decimal digits, connector punctuation and the two joiners.
bool is_word_character(char32_t code_point);
// General category P, and the other ASCII symbols.
bool is_punctuation(char32_t code_point);
// General category M.
bool is_combining_mark(char32_t code_point);

// The classes that the patterns of byte-level tokenizers distinguish, with the tables of Unicode 16.
enum CharacterClass : uint8_t {
  kClassOther = 0,
  kClassUpper = 1,        // Lu, Lt
  kClassLower = 2,        // Ll
  kClassOtherLetter = 4,  // Lm, Lo
  kClassLetter = 7,       // All of them.
  kClassMark = 8,         // M
  kClassNumber = 16,      // N
  kClassWhiteSpace = 32,
};
CharacterClass character_class(char32_t code_point);

enum GeneralCategory : uint8_t {
  kCategoryCn,
  kCategoryLu,
  kCategoryLl,
  kCategoryLt,
  kCategoryLm,
  kCategoryLo,
  kCategoryMn,
  kCategoryMc,
  kCategoryMe,
  kCategoryNd,
  kCategoryNl,
  kCategoryNo,
  kCategoryPc,
  kCategoryPd,
  kCategoryPs,
  kCategoryPe,
  kCategoryPi,
  kCategoryPf,
  kCategoryPo,
  kCategorySm,
  kCategorySc,
  kCategorySk,
  kCategorySo,
  kCategoryZs,
  kCategoryZl,
  kCategoryZp,
  kCategoryCc,
  kCategoryCf,
  kCategoryCs,
  kCategoryCo,
};
// By the tables of Unicode 16.
GeneralCategory general_category(char32_t code_point);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// True if the text is certainly in NFC already: a quick test that covers the characters of most texts.
bool is_quickly_nfc(std::string_view text);
// The normal form of valid UTF-8. Takes linear time, except for sorting runs of combining marks.
std::string normal_form(std::string_view text, NormalForm form);
inline std::string nfc(std::string_view text) { return normal_form(text, NormalForm::kNfc); }
// Each character's lower case, without regard to its neighbours (Rust's char::to_lowercase).
std::string lower_case(std::string_view text);

}  // namespace tandem
