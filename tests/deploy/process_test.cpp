#include "deploy/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <random>

#include "deploy/shell_quote.h"

namespace tandem {
namespace process_test {

ProcessResult sh(const std::string& script, const ProcessOptions& options = {}) {
  auto result = run_process("/bin/sh", {"-c", script}, options);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return std::move(result).value();
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TEST(Process, OutputsAndStatus) {
  const auto result = sh("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.output, "out\n");
  EXPECT_EQ(result.errors, "err\n");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_EQ(sh("kill -9 $$").signal, SIGKILL);
  EXPECT_EQ(sh("cat; echo end").output, "end\n") << "its standard input is not empty";
}

TEST(Process, MoreOutputThanAPipeHolds) {
  const auto result = sh("head -c 1000000 /dev/zero; head -c 300000 /dev/zero >&2");
  EXPECT_EQ(result.output.size(), 1'000'000u);
  EXPECT_EQ(result.errors.size(), 300'000u);
}

TEST(Process, AMissingProgramIsAnError) {
  const auto result = run_process("/nonexistent/adb", {});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("/nonexistent/adb cannot be started"), std::string::npos);
}

TEST(Process, StopsAndTimesOut) {
  const auto begin = std::chrono::steady_clock::now();
  int polls = 0;
  const auto stopped = run_process("/bin/sh", {"-c", "exec sleep 60"}, {.stop = [&] { return ++polls > 3; }});
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  const auto late = run_process("/bin/sh", {"-c", "trap '' TERM; exec sleep 60"}, {.timeout_seconds = 0.1});
  ASSERT_FALSE(late.ok());
  EXPECT_NE(late.error().message.find("did not end within"), std::string::npos);
  EXPECT_LT(seconds_since(begin), 20);
}

// adb starts a server that outlives it and keeps its outputs.
TEST(Process, DoesNotWaitForWhatAProgramLeavesBehind) {
  const auto begin = std::chrono::steady_clock::now();
  const auto result = sh("sleep 30 & echo $!");
  EXPECT_LT(seconds_since(begin), 20);
  ::kill(std::stoi(result.output), SIGKILL);
}

TEST(Process, IgnoredSignalsAreNotInherited) {
  const auto before = ::signal(SIGPIPE, SIG_IGN);
  // 128 + SIGPIPE: the writer died of it.
  const auto result = sh("(sh -c 'while :; do echo y; done'; echo $? >&2) | head -n 1");
  ::signal(SIGPIPE, before);
  EXPECT_EQ(result.errors, "141\n");
}

// A real shell reads back exactly the text that was quoted.
TEST(ShellQuote, EveryTextIsOneWord) {
  std::vector<std::string> texts = {"",
                                    "a",
                                    "it's",
                                    "\"q\"",
                                    "$HOME",
                                    "`id`",
                                    "$(id)",
                                    "a b",
                                    "\n",
                                    "a\nb\n",
                                    "\\",
                                    "\\'",
                                    "'",
                                    "''",
                                    "-n",
                                    "~",
                                    "*",
                                    "a;b&c|d",
                                    "\xc3\xa4 \xe2\x82\xac",
                                    "!x",
                                    "#",
                                    "\t\r\x1b",
                                    "%s %d",
                                    "\xff\xfe"};
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    std::string text(random() % 50, ' ');
    for (char& c : text) c = static_cast<char>(random() % 255 + 1);
    texts.push_back(text);
  }
  for (const std::string& text : texts) {
    const auto result = sh("printf '%s.' " + shell_quote(text));
    EXPECT_EQ(result.output, text + ".") << shell_quote(text);
  }
}

TEST(ShellQuote, CommandsRunInTheFolderWithTheEnvironment) {
  Manifest manifest;
  manifest.folder = "/tmp";
  manifest.environment = {{"TANDEM_A", "x;y z"}, {"TANDEM_B", "$HOME"}};
  const auto result = sh(device_command(manifest, {"sh", "-c", "pwd; echo \"$TANDEM_A|$TANDEM_B|$1\"", "sh", "it's"}));
  EXPECT_EQ(result.output, "/tmp\nx;y z|$HOME|it's\n") << result.errors;
}

}  // namespace process_test
}  // namespace tandem
