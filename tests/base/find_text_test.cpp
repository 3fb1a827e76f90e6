#include "base/find_text.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace tandem {
namespace find_text_test {

TEST(FindText, FindsWhatTheStandardLibraryFinds) {
  std::mt19937 random(1);
  for (int i = 0; i < 5'000; ++i) {
    std::string text;
    std::string wanted;
    for (size_t n = random() % 300; n > 0; --n) text += random() % 8 == 0 ? 'b' : 'a';
    if (random() % 2 == 0 && !text.empty()) {
      const size_t at = random() % text.size();
      wanted = text.substr(at, random() % 80);
    } else {
      for (size_t n = random() % 50; n > 0; --n) wanted += random() % 30 == 0 ? 'b' : 'a';
    }
    const size_t from = random() % 310;
    EXPECT_EQ(find_text(text, wanted, from), text.find(wanted, from)) << text << " " << wanted << " " << from;
    EXPECT_EQ(find_last_text(text, wanted), text.rfind(wanted)) << text << " " << wanted;
  }
}

// Comparing at each position would take hours.
TEST(FindText, TakesLinearTime) {
  const std::string text(20'000'000, 'a');
  const std::string wanted = std::string(10'000'000, 'a') + "b";
  EXPECT_EQ(find_text(text, wanted), std::string::npos);
  EXPECT_EQ(find_last_text(text, wanted), std::string::npos);
}

}  // namespace find_text_test
}  // namespace tandem
