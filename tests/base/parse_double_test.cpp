#include "base/parse_double.h"

#include <gtest/gtest.h>

#include <charconv>
#include <clocale>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

namespace tandem {
namespace parse_double_test {

TEST(ParseDouble, TakesDecimalNumbersOnly) {
  for (const char* text : {"0", "-0", "1.5", ".5", "5.", "1e3", "1E-3", "-12.25e+2", "0.1", "1e-400", "00012"}) {
    ASSERT_TRUE(parse_double(text)) << text;
    EXPECT_EQ(*parse_double(text), std::strtod(text, nullptr)) << text;
  }
  for (const char* text : {"", "-", ".", "-.", "e5", "1e", "1e+", "+1", " 1", "1 ", "1,5", "0x10", "inf", "nan",
                           "1.2.3", "--1", "1f", "1e5.5"}) {
    EXPECT_FALSE(parse_double(text)) << text;
  }
  EXPECT_FALSE(parse_double(std::string_view("1\0", 2)));
  EXPECT_TRUE(std::isinf(*parse_double("1e999")));
  EXPECT_TRUE(std::signbit(*parse_double("-0")));
}

// std::from_chars, where it is there, is the oracle.
TEST(ParseDouble, GivesTheNearestDouble) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    double number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    if (!std::isfinite(number)) continue;
    char text[400];
    const int digits = static_cast<int>(random() % 20);
    const int size = std::snprintf(text, sizeof(text), i % 2 == 0 ? "%.*e" : "%.*g", digits, number);
    double wanted = 0;
    if (std::from_chars(text, text + size, wanted).ec != std::errc()) continue;  // Too large or too small.
    ASSERT_EQ(parse_double({text, static_cast<size_t>(size)}), wanted) << text;
  }
}

TEST(ParseDouble, IgnoresTheLocale) {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8"}) std::setlocale(LC_NUMERIC, name);
  EXPECT_EQ(parse_double("1.5"), 1.5);
  std::setlocale(LC_NUMERIC, before.c_str());
}

}  // namespace parse_double_test
}  // namespace tandem
