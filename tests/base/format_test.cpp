#include "base/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tandem {
namespace {

TEST(Format, ShowsEveryKindOfValue) {
  EXPECT_EQ(str_format("{} {} {} {}", true, 'c', "text", std::string("string")), "true c text string");
  EXPECT_EQ(str_format("{} {} {}", -7, uint8_t{200}, std::numeric_limits<uint64_t>::max()),
            "-7 200 18446744073709551615");
  EXPECT_EQ(str_format("{}", std::numeric_limits<int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(str_format("{{}} {{{}}}", 1), "{} {1}");
  EXPECT_EQ(str_format("no placeholder"), "no placeholder");
}

TEST(Format, AlignsAndFills) {
  EXPECT_EQ(str_format("[{:5}] [{:<5}] [{:>5}] [{:^5}]", 42, 42, 42, 42), "[   42] [42   ] [   42] [ 42  ]");
  EXPECT_EQ(str_format("[{:5}] [{:>5}] [{:-^6}]", "ab", "ab", "ab"), "[ab   ] [   ab] [--ab--]");
  EXPECT_EQ(str_format("[{:#<{}}{:.<{}}]", "", 3, "", 2), "[###..]");
  EXPECT_EQ(str_format("[{:05}] [{:05}] [{:03}]", 42, -42, 12345), "[00042] [-0042] [12345]");
  EXPECT_EQ(str_format("[{:>4}]", "é"), "[   é]") << "width counts characters, not bytes";
  EXPECT_EQ(str_format("[{:.2}] [{:.{}}]", "abc", "abc", 1), "[ab] [a]");
}

TEST(Format, ShowsIntegersInOtherBases) {
  EXPECT_EQ(str_format("{:x} {:X} {:02x} {:016x} {:o} {:b}", 255, 255, 7, uint64_t{0xabc}, 8, 5),
            "ff FF 07 0000000000000abc 10 101");
  EXPECT_EQ(str_format("{:x}", -255), "-ff");
}

TEST(Format, ShowsTheShortestFloats) {
  EXPECT_EQ(str_format("{} {} {} {}", 1.0, 0.1, 100000.0, 1e15), "1 0.1 100000 1000000000000000");
  EXPECT_EQ(str_format("{} {} {} {}", 1e16, 1e-4, 1e-5, -0.0), "1e+16 0.0001 1e-05 -0");
  EXPECT_EQ(str_format("{} {}", 0.1f, 16777216.0f), "0.1 16777216");
  EXPECT_EQ(str_format("{} {} {:.2f}", std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), std::nan("")),
            "inf -inf nan");
  EXPECT_EQ(str_format("[{:05}] [{:+.2f}] [{:+}]", -1.5, 2.0, 3), "[-01.5] [+2.00] [+3]");
}

// The C library's printf is the oracle of fixed and general notation.
TEST(Format, RoundsFloatsAsPrintfDoes) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    uint64_t bits = random();
    double value = 0.0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    if (i % 2 == 0) value = std::ldexp(value, -std::ilogb(value) + static_cast<int>(random() % 40) - 20);
    const int precision = static_cast<int>(random() % 12);
    char expected[512];
    std::snprintf(expected, sizeof expected, "%.*f", precision, value);
    ASSERT_EQ(str_format("{:.{}f}", value, precision), expected);
    std::snprintf(expected, sizeof expected, "%.*g", precision, value);
    ASSERT_EQ(str_format("{:.{}g}", value, precision), expected);
    ASSERT_EQ(std::strtod(str_format("{}", value).c_str(), nullptr), value);
    const auto single = static_cast<float>(value);
    ASSERT_EQ(std::strtof(str_format("{}", single).c_str(), nullptr), single);
  }
}

TEST(Format, JoinsAndAppends) {
  EXPECT_EQ(str_join(std::vector<int64_t>{1, 2, 3}, ", "), "1, 2, 3");
  EXPECT_EQ(str_join(std::vector<std::string>{}, ", "), "");
  std::string out = "a";
  append_format(out, "{}", 1);
  EXPECT_EQ(out, "a1");
}

// A text that is no literal is not checked by the compiler.
TEST(Format, LeavesWhatHasNoValueAsItIs) {
  const FormatValue one(1);
  std::string out;
  append_values(out, "{} {} {:q {:.} } {", {&one, 1});
  EXPECT_EQ(out, "1 {} {:q {:.} } {");
}

constexpr bool valid(std::string_view text, std::initializer_list<format_internal::Fits> arguments) {
  return format_internal::is_valid(text, std::span(arguments.begin(), arguments.size()));
}
using format_internal::Fits;
static_assert(!valid("{}", {}));
static_assert(!valid("", {Fits::kText}));
static_assert(!valid("{:.1f}", {Fits::kInteger}));
static_assert(!valid("{:x}", {Fits::kFloat}));
static_assert(!valid("{:d}", {Fits::kText}));
static_assert(!valid("{:.2}", {Fits::kInteger}));
static_assert(!valid("{", {Fits::kText}));
static_assert(!valid("{} }", {Fits::kText}));
static_assert(!valid("{:{}}", {Fits::kText, Fits::kFloat}));
static_assert(valid("{} {:.1f}", {Fits::kText, Fits::kFloat}));
static_assert(valid("{:{}}", {Fits::kText, Fits::kInteger}));

}  // namespace
}  // namespace tandem
