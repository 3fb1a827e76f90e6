#include "generation/stop_strings.h"

#include <gtest/gtest.h>

#include "unicode/utf8.h"

namespace tandem {
namespace stop_strings_test {

StopStrings make(std::vector<std::string> strings) {
  Result<StopStrings> stop = StopStrings::create(std::move(strings));
  EXPECT_TRUE(stop.ok());
  return *std::move(stop);
}

TEST(StopStrings, HoldsBackWhatCouldBecomeOne) {
  StopStrings stop = make({"\nUser:"});
  EXPECT_EQ(stop.push("Hello"), "Hello");
  EXPECT_EQ(stop.push("\n"), "");
  EXPECT_EQ(stop.push("U"), "");
  EXPECT_EQ(stop.push("ps"), "\nUps");
  EXPECT_EQ(stop.push(" x\nUse"), " x");
  EXPECT_EQ(stop.push("r: and more"), "");
  EXPECT_EQ(stop.reached(), "\nUser:");
  EXPECT_EQ(stop.push("ignored"), "");
  EXPECT_EQ(stop.flush(), "");
  stop.reset();
  EXPECT_EQ(stop.reached(), std::nullopt);
  EXPECT_EQ(stop.push("again\nU"), "again");
  EXPECT_EQ(stop.flush(), "\nU");
}

TEST(StopStrings, TheFirstCompleteOneEndsIt) {
  StopStrings stop = make({"abcd", "bc", "zbc"});
  EXPECT_EQ(stop.push("xabcd"), "xa");
  EXPECT_EQ(stop.reached(), "bc");
  StopStrings both = make({"bc", "zbc"});
  EXPECT_EQ(both.push("xzbc"), "x");
  EXPECT_EQ(both.reached(), "zbc");
}

TEST(StopStrings, PassesEverythingWithoutAny) {
  StopStrings stop = make({});
  EXPECT_EQ(stop.push("text"), "text");
  EXPECT_EQ(stop.flush(), "");
}

TEST(StopStrings, RefusesNonsense) {
  EXPECT_FALSE(StopStrings::create({""}).ok());
  EXPECT_FALSE(StopStrings::create({"a", "\xff"}).ok());
  EXPECT_FALSE(StopStrings::create({std::string(1 << 20, 'x')}).ok());
}

// The plain definition, over the whole text.
std::string expected_output(const std::string& text, const std::vector<std::string>& strings, bool& reached) {
  for (size_t end = 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : strings) {
      if (stop.size() <= end && text.compare(end - stop.size(), stop.size(), stop) == 0) {
        longest = std::max(longest, stop.size());
      }
    }
    if (longest > 0) {
      reached = true;
      return text.substr(0, end - longest);
    }
  }
  reached = false;
  return text;
}

TEST(StopStrings, HowTheTextIsCutMakesNoDifference) {
  const std::vector<std::string> letters = {"a", "b", "é", "è"};
  uint64_t random = 1;
  const auto next = [&](uint64_t below) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return (random >> 33) % below;
  };
  int stopped = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> strings(1 + next(3));
    for (std::string& stop : strings) {
      for (uint64_t i = 0, n = 1 + next(5); i < n; ++i) stop += letters[next(4)];
    }
    StopStrings stop = make(strings);
    std::string text;
    std::string output;
    for (int piece = 0; piece < 20; ++piece) {
      std::string characters;
      for (uint64_t i = 0, n = next(4); i < n; ++i) characters += letters[next(4)];
      text += characters;
      const std::string shown = stop.push(characters);
      EXPECT_TRUE(is_valid_utf8(shown));
      output += shown;
    }
    output += stop.flush();
    bool reached = false;
    EXPECT_EQ(output, expected_output(text, strings, reached)) << text;
    EXPECT_EQ(stop.reached().has_value(), reached);
    stopped += reached ? 1 : 0;
  }
  EXPECT_GT(stopped, 500);
  EXPECT_LT(stopped, 2000);
}

}  // namespace stop_strings_test
}  // namespace tandem
