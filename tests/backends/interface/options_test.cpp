// Options of back ends: what a spec allows, and values with their defaults.
#include "backends/interface/options.h"

#include <gtest/gtest.h>

#include <iterator>

#include "base/error.h"

namespace tandem {
namespace options_test {

Status check_color(std::string_view value) {
  if (value == "red" || value == "blue") return ok_status();
  return invalid_argument("\"{}\" is no color; give red or blue", value);
}

constexpr OptionSpec kSpecs[] = {
    {.name = "fast", .kind = OptionKind::kFlag, .help = "", .default_value = "true"},
    {.name = "color", .help = "", .default_value = "red", .check = check_color},
    {.name = "count", .kind = OptionKind::kCount, .help = "", .default_value = "3", .least = 1, .most = 9},
    {.name = "size", .kind = OptionKind::kNumber, .help = "", .most = 8},
};

TEST(OptionValues, AreThoseGivenOrTheDefaults) {
  const auto defaults = OptionValues::read(kSpecs, {});
  ASSERT_TRUE(defaults.ok());
  EXPECT_TRUE(defaults->flag("fast"));
  EXPECT_EQ(defaults->text("color"), "red");
  EXPECT_EQ(defaults->count("count"), 3);
  EXPECT_EQ(defaults->number("size"), 0.0);
  EXPECT_FALSE(defaults->has("size"));
  const BackendOptions options = {{"fast", "false"}, {"color", "blue"}, {"count", "9"}, {"size", "0.5"}};
  const auto given = OptionValues::read(kSpecs, options);
  ASSERT_TRUE(given.ok()) << given.error().message;
  EXPECT_FALSE(given->flag("fast"));
  EXPECT_EQ(given->text("color"), "blue");
  EXPECT_EQ(given->count("count"), 9);
  EXPECT_EQ(given->number("size"), 0.5);
  EXPECT_TRUE(given->has("size"));
}

TEST(OptionValues, WhatASpecDoesNotAllowIsRefused) {
  const std::pair<BackendOptions, const char*> cases[] = {
      {{{"colour", "red"}}, "the option `colour` is unknown; these are known: fast, color, count, size"},
      {{{"fast", "yes"}}, "the option `fast` is \"yes\"; give true or false"},
      {{{"fast", "1"}}, "true or false"},
      {{{"color", "green"}}, "the option `color`: \"green\" is no color; give red or blue"},
      {{{"color", ""}}, "empty"},
      {{{"count", "0"}}, "the option `count` is \"0\"; give a whole number from 1 to 9"},
      {{{"count", "10"}}, "from 1 to 9"},
      {{{"count", "3.0"}}, "from 1 to 9"},
      {{{"count", " 3"}}, "from 1 to 9"},
      {{{"count", "99999999999999999999"}}, "from 1 to 9"},
      {{{"size", "0"}}, "above 0 and up to 8"},
      {{{"size", "8.5"}}, "above 0 and up to 8"},
      {{{"size", "nan"}}, "above 0 and up to 8"},
      {{{"size", "1GB"}}, "above 0 and up to 8"}};
  for (const auto& [options, part] : cases) {
    const auto values = OptionValues::read(kSpecs, options);
    ASSERT_FALSE(values.ok()) << part;
    EXPECT_EQ(values.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(values.error().message.find(part), std::string::npos) << values.error().message;
  }
}

}  // namespace options_test
}  // namespace tandem
