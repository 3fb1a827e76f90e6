#include "base/printable.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace tandem {
namespace printable_test {

// Has no byte that a terminal obeys, whatever the text was.
void expect_harmless(std::string_view text, bool lines = false) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    EXPECT_TRUE((byte >= 0x20 && byte != 0x7f) || (lines && (byte == '\n' || byte == '\t'))) << int{byte};
    if (byte == 0xc2) {  // C1 controls are c2 80 to c2 9f.
      EXPECT_GE(static_cast<unsigned char>(text[i + 1]), 0xa0);
    }
  }
  for (const char* unsafe :
       {"\u202a", "\u202b", "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u2028", "\u2029"}) {
    EXPECT_EQ(text.find(unsafe), std::string_view::npos);
  }
}

TEST(Printable, LeavesOrdinaryTextAlone) {
  for (const char* text :
       {"", "layers.0.attention.q", "naïve ☂ 日本語 🦊", "C:\\x", "שלום مرحبا", "a\u200db \u00a0c"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_message(text), text);
  }
}

TEST(Printable, EscapesTerminalControls) {
  EXPECT_EQ(printable("a\x1b[2Jb"), "a\\x1b[2Jb");
  EXPECT_EQ(printable("one\ntwo\rthree\tfour"), "one\\ntwo\\rthree\\tfour");
  EXPECT_EQ(printable(std::string("\0\x07\x7f", 3)), "\\x00\\x07\\x7f");
  EXPECT_EQ(printable("\u009b31m \u202egnp.exe \u2066x\u2069 \u2028"),
            "\\u{9b}31m \\u{202e}gnp.exe \\u{2066}x\\u{2069} \\u{2028}");
  EXPECT_EQ(printable_lines("one\n\ttwo\r\x1b"), "one\n\ttwo\\r\\x1b");
}

TEST(Printable, ShowsBrokenUtf8AsBytes) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // Overlong.
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // A surrogate.
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // Beyond the last code point.
  EXPECT_EQ(printable("\xf5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
  EXPECT_EQ(printable("x\xe6\x97"), "x\\xe6\\x97");  // Truncated.
  EXPECT_EQ(printable("\x9b"
                      "31m"),
            "\\x9b31m");  // C1 as one byte.
  EXPECT_EQ(printable("\xe6\x97 \xc3\xa9"), "\\xe6\\x97 é");
}

TEST(Printable, EveryPairOfBytesIsHarmless) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      expect_harmless(printable(text));
      expect_harmless(printable_lines(text), true);
      expect_harmless(printable_message(text + "\x80"));
    }
  }
}

TEST(Printable, MessagesKeepBothEndsOfWhatIsLong) {
  const std::string path = "/models/" + std::string(5000, 'x') + "/file.tdm";
  const std::string message = printable_message(path + ": is damaged; copy it again");
  EXPECT_LT(message.size(), 300u);
  EXPECT_TRUE(message.starts_with("/models/xxx"));
  EXPECT_TRUE(message.ends_with("xxx/file.tdm: is damaged; copy it again"));
  std::string words;
  for (int i = 0; i < 5000; ++i) words += "many words ";
  const std::string text = printable_message("error in " + words + "; use fewer");
  EXPECT_LE(text.size(), 1000u);
  EXPECT_TRUE(text.starts_with("error in many"));
  EXPECT_TRUE(text.ends_with("; use fewer"));
  EXPECT_EQ(printable_message("two  spaces "), "two  spaces ");
}

TEST(Printable, ShortensBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "日本🦊é";
  for (size_t limit = 8; limit < 60; ++limit) {
    const std::string cut = shortened(text, limit);
    EXPECT_LE(cut.size(), limit);
    EXPECT_EQ(printable(cut), cut) << limit;  // No half of a character.
  }
  EXPECT_EQ(shortened("12345678", 8), "12345678");
}

TEST(Printable, JsonStaysTheSameJson) {
  const Json json = {{"a\u202eb", "\u009b31m\u2028\u2066 é 🦊\x7f"}, {"lines", "1\n2\x1b"}};
  for (const int indent : {-1, 2}) {
    const std::string text = printable_json(dump_json(json, indent));
    expect_harmless(text, true);
    EXPECT_NE(text.find("é 🦊"), std::string::npos);
    const auto parsed = parse_json(text, "");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, json);
  }
}

}  // namespace printable_test
}  // namespace tandem
