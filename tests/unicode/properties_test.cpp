// The tables of Unicode: their values at the edges of versions, and that all of them are those of record.
#include "unicode/properties.h"

#include <gtest/gtest.h>

#include "base/hash.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr char32_t kLast = 0x10ffff;
bool is_scalar(char32_t c) { return c < 0xd800 || (c > 0xdfff && c <= kLast); }

std::string text_of(char32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

// The checksum of what `value` says about every character.
template <typename Value>
uint64_t checksum(Value&& value) {
  std::string all;
  for (char32_t c = 0; c <= kLast; ++c) {
    if (is_scalar(c)) all += value(c);
  }
  return hash_bytes({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
}

// Written down when the tables were compared, character by character, with utf8proc and the library `tokenizers`. A
// change of the tables changes ids, and so it has to be meant.
TEST(Unicode, TablesAreThoseOfRecord) {
  EXPECT_EQ(checksum([](char32_t c) {
              return static_cast<char>(is_white_space(c) | is_numeric(c) << 1 | is_word_character(c) << 2 |
                                       is_punctuation(c) << 3 | is_combining_mark(c) << 4);
            }),
            0x6d3ddc9a1aff9826u);
  EXPECT_EQ(checksum([](char32_t c) { return static_cast<char>(general_category(c)); }), 0x89b54731f262300cu);
  EXPECT_EQ(checksum([](char32_t c) { return static_cast<char>(character_class(c)); }), 0x5517f4751a93dab6u);
  EXPECT_EQ(checksum([](char32_t c) { return lower_case(text_of(c)) + '\0'; }), 0x62b8c3f497b9e88bu);
  const std::pair<NormalForm, uint64_t> forms[] = {{NormalForm::kNfc, 0xb6d49a042c848a98u},
                                                   {NormalForm::kNfd, 0x2e35e116e606c0bau},
                                                   {NormalForm::kNfkc, 0xf270c48d691baec5u},
                                                   {NormalForm::kNfkd, 0x184ff0d3599b011au}};
  for (const auto& [form, expected] : forms) {
    EXPECT_EQ(checksum([form = form](char32_t c) { return normal_form(text_of(c), form) + '\0'; }), expected);
  }
}

TEST(Unicode, CategoriesAreOfVersion16) {
  EXPECT_EQ(general_category(U'a'), kCategoryLl);
  EXPECT_EQ(general_category(0x1b4e), kCategoryPo);   // New in 16.
  EXPECT_EQ(general_category(0x10ed0), kCategoryCn);  // New in 17.
  EXPECT_EQ(general_category(0xe0100), kCategoryMn);
  EXPECT_EQ(general_category(0x10fffd), kCategoryCo);
  EXPECT_EQ(general_category(0x10ffff), kCategoryCn);
}

TEST(Unicode, OthersAreOfTheirOwnVersions) {
  EXPECT_TRUE(is_numeric(0x11de0));           // New in 17.
  EXPECT_FALSE(is_punctuation(0x2e52));       // Newer than 8.
  EXPECT_TRUE(is_punctuation(0x166d));        // Was one in 8.
  EXPECT_FALSE(is_combining_mark(0x897));     // Newer than 9.
  EXPECT_TRUE(is_combining_mark(0x1cf2));     // Was one in 9.
  EXPECT_EQ(lower_case("\ua7ce"), "\ua7cf");  // New in 17.
  EXPECT_EQ(lower_case("\u0130"), "i\u0307");
}

TEST(Unicode, NormalFormsComposeAndOrder) {
  EXPECT_EQ(normal_form("e\u0323\u0301", NormalForm::kNfc), "\u1eb9\u0301");
  EXPECT_EQ(normal_form("e\u0301\u0323", NormalForm::kNfd), "e\u0323\u0301");  // By combining class.
  EXPECT_EQ(normal_form("\u1100\u1161\u11a8", NormalForm::kNfc), "\uac01");
  EXPECT_EQ(normal_form("\uac00\u11a7", NormalForm::kNfc), "\uac00\u11a7");  // No tail has this number.
  EXPECT_EQ(normal_form("\uac01", NormalForm::kNfd), "\u1100\u1161\u11a8");
  EXPECT_EQ(normal_form("\u0958", NormalForm::kNfc), "\u0915\u093c");  // Excluded from composition.
  EXPECT_EQ(normal_form("\ufdfa", NormalForm::kNfkc).size(), 33u);     // The longest.
  EXPECT_EQ(normal_form("\u1e9b\u0323", NormalForm::kNfkc), "\u1e69");
  EXPECT_EQ(normal_form("a\u1abf\u0301", NormalForm::kNfc), "a\u1abf\u0301");  // Newer than 9: in the way.
}

}  // namespace
}  // namespace tandem
