#include <gtest/gtest.h>

#include "generation/reasoning_splitter.h"

namespace tandem {
namespace reasoning_test {

struct Case {
  const char* prompt;
  const char* text;
  const char* reasoning;
  const char* answer;
};

constexpr Case kCases[] = {
    {"assistant\n", "<think>\nHm, 2 < 3.\n</think>\n\nYes.", "Hm, 2 < 3.", "Yes."},
    {"assistant\n", "\n<think>a</think>b", "a", "b"},
    {"assistant\n", "<think>\n\n</think>\n\nYes.", "", "Yes."},
    {"assistant\n", "Just an answer with <think>tags</think>.", "", "Just an answer with <think>tags</think>."},
    {"assistant\n", "  indented", "", "  indented"},
    {"assistant\n", "<thinking>", "", "<thinking>"},
    {"assistant\n", "<th", "", "<th"},
    {"assistant\n", "", "", ""},
    {"assistant\n", "<think>\nno end\n\n", "no end", ""},
    {"assistant\n", "<think>a </thin b</think>\n c\n", "a </thin b", " c\n"},
    {"assistant\n<think>\n", "inside\n</think>\n\nAnswer", "inside", "Answer"},
    {"assistant\n<think>", "a\n\nb", "a\n\nb", ""},
    {"assistant\n<think>\n\n</think>\n\n", "Answer", "", "Answer"},
    {"assistant\n", "<think>Grüße</think>日本", "Grüße", "日本"},
};

TEST(Reasoning, SplitsTheSameHoweverTheTextIsCut) {
  for (const Case& c : kCases) {
    const std::string text = c.text;
    for (size_t step = 1; step <= text.size() + 1; ++step) {
      ReasoningSplitter splitter = ReasoningSplitter::after_prompt(c.prompt);
      ReasoningSplitter::Pieces all;
      const auto add = [&](const ReasoningSplitter::Pieces& pieces) {
        all.reasoning += pieces.reasoning;
        all.answer += pieces.answer;
      };
      for (size_t at = 0; at < text.size(); at += step) add(splitter.push(std::string_view(text).substr(at, step)));
      add(splitter.flush());
      EXPECT_EQ(all.reasoning, c.reasoning) << c.text << " in steps of " << step;
      EXPECT_EQ(all.answer, c.answer) << c.text << " in steps of " << step;
    }
  }
}

TEST(Reasoning, NothingIsSplitUnlessAsked) {
  ReasoningSplitter splitter;
  EXPECT_FALSE(splitter.splits());
  EXPECT_EQ(splitter.push("<think>a</think>b").answer, "<think>a</think>b");
}

TEST(Reasoning, ComesAtOnce) {
  ReasoningSplitter splitter = ReasoningSplitter::after_prompt("");
  EXPECT_EQ(splitter.push("<think>\nHm").reasoning, "Hm");
  EXPECT_EQ(splitter.push(", so").reasoning, ", so");
  EXPECT_EQ(splitter.push("\n</think>\n").reasoning, "");
  EXPECT_EQ(splitter.push("\nYes").answer, "Yes");
}

}  // namespace reasoning_test
}  // namespace tandem
