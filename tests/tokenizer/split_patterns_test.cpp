// The hand-written patterns give the same words as the regular expressions that they replace.
#include "tokenizer/split_patterns.h"

#include <gtest/gtest.h>

#include <random>

#include "tokenizer/import/compile_steps.h"
#include "tokenizer/pre_tokenizer.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace split_patterns_test {

constexpr std::string_view kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// Characters of each class, and those that the patterns name.
std::string random_text(std::mt19937& random) {
  constexpr std::u32string_view kUsual =
      U"aZbsStTrReEvVmMlLdD'''  \n\r\t/.,-09\u00a0\u3000\u2028\u0301\u0e31\u00e9\u00c9"
      U"\u01c5\u02b0\u65e5\u017f\u00bd\u2167\u0660\u20ac\U0001f600\u200d\u212a\u0130";
  constexpr std::u32string_view kUnicode16 =
      U"\u0897\u1c89\u1c8a\u1b4e\ua7cb\ua7dc\u2427\U000105c0\U00010d40\U00010d4a\U00010d50\U00010d70\U00011bf0"
      U"\U0001e5f1\U00016d40\U0001cc00\U0001171e";
  std::string text;
  const size_t length = random() % 24;
  for (size_t i = 0; i < length; ++i) {
    char32_t c = kUsual[random() % kUsual.size()];
    if (random() % 8 == 0) {
      c = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
      if (c >= 0xd800 && c <= 0xdfff) c = U'x';
    }
    if (random() % 32 == 0) c = kUnicode16[random() % kUnicode16.size()];
    append_utf8(text, c);
  }
  return text;
}

PreTokenizer compiled(std::string_view pattern) {
  const PreTokenizerStep step{PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated),
                              std::string(pattern)};
  const auto steps = compile_steps(std::span(&step, 1));
  EXPECT_TRUE(steps.ok()) << steps.error().message;
  auto pre_tokenizer = PreTokenizer::create(*steps);
  EXPECT_TRUE(pre_tokenizer.ok()) << pre_tokenizer.error().message;
  return *std::move(pre_tokenizer);
}

TEST(SplitPatterns, EqualTheRegularExpressions) {
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kO200k}) {
    SCOPED_TRACE(pattern);
    ASSERT_TRUE(find_known_pattern(pattern));
    // As text, as in files from before patterns were compiled.
    const PreTokenizerStep step{PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated),
                                std::string(pattern)};
    const auto by_hand = PreTokenizer::create(std::span(&step, 1));
    ASSERT_TRUE(by_hand.ok()) << by_hand.error().message;
    const PreTokenizer by_regex = compiled(pattern);
    std::mt19937 random(1);
    for (int i = 0; i < 40'000; ++i) {
      const std::string text = random_text(random);
      WorkBudget budget(text.size());
      PreTokenizerRun fast(*by_hand, budget);
      PreTokenizerRun slow(by_regex, budget);
      const auto words = fast.split(text, true);
      const auto expected = slow.split(text, true);
      ASSERT_TRUE(words.ok() && expected.ok());
      ASSERT_EQ(**words, **expected) << text;
    }
  }
}

TEST(SplitPatterns, HaveAnAutomaton) {
  for (const std::string_view pattern : {kGpt2Pattern, kLlama3Pattern, kQwen2Pattern, kO200k}) {
    const auto regex = make_regex(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    EXPECT_TRUE(regex->has_dfa()) << pattern;
  }
}

TEST(SplitPatterns, OtherPatternsAsTextAreRefused) {
  const PreTokenizerStep step{PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated), R"(\d+)"};
  const auto refused = PreTokenizer::create(std::span(&step, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("compile the model again"), std::string::npos) << refused.error().message;
}

TEST(SplitPatterns, OthersAreNotKnown) {
  EXPECT_FALSE(find_known_pattern(""));
  EXPECT_FALSE(find_known_pattern(R"(\s+)"));
  EXPECT_FALSE(find_known_pattern(std::string(kQwen2Pattern) + "|x"));
}

TEST(Nfc, QuickTestIsNeverWrong) {
  std::mt19937 random(2);
  for (int i = 0; i < 40'000; ++i) {
    const std::string text = random_text(random);
    if (is_quickly_nfc(text)) {
      ASSERT_EQ(nfc(text), text);
    }
  }
  // No character that passes changes, nor does it change what precedes it.
  for (char32_t c = 0; c < 0x30000; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(text, c);
    if (!is_quickly_nfc(text)) continue;
    ASSERT_EQ(nfc(text), text) << static_cast<uint32_t>(c);
    for (const std::string_view before : {"a", "\u0301", "\u1100", "\uac00", "\u304b", "\u0915", "\u09c7", "o\u0323"}) {
      const std::string both = std::string(before) + text;
      ASSERT_EQ(nfc(both), nfc(before) + text) << static_cast<uint32_t>(c);
    }
  }
}

}  // namespace split_patterns_test
}  // namespace tandem
