#include "base/log.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace tandem {
namespace {

TEST(LogTest, GivesTheAppWhatIsCoarseEnough) {
  std::vector<std::string> messages;
  const Log log([&](LogLevel level, std::string_view message) {
    messages.push_back(std::string(log_level_name(level)) + " " + std::string(message));
  });
  log.write(LogLevel::kError, "a");
  log.write(LogLevel::kWarning, "b");
  log.write(LogLevel::kInfo, "c");
  EXPECT_EQ(messages, (std::vector<std::string>{"error a", "warning b"}));
  EXPECT_TRUE(log.wants(LogLevel::kWarning));
  EXPECT_FALSE(log.wants(LogLevel::kInfo));
}

TEST(LogTest, WithoutAFunctionNothingIsWanted) {
  const Log log({}, LogLevel::kDebug);
  EXPECT_FALSE(log.wants(LogLevel::kError));
  EXPECT_EQ(log.finest(), LogLevel::kError) << "so that nobody makes messages for it";
  log.write(LogLevel::kError, "dropped");
}

TEST(LogTest, WhatTheFunctionThrowsIsDropped) {
  int calls = 0;
  const Log log([&](LogLevel, std::string_view) {
    ++calls;
    throw std::runtime_error("no");
  });
  log.write(LogLevel::kWarning, "x");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace tandem
