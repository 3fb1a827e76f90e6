// Tests in a separate process, with an environment variable set: Qualcomm's library supports one architecture per
// process.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "support/temp_folder.h"

extern char** environ;

namespace tandem::test {

// Runs the tests of this program that `tests` (a filter) names. All of them must pass; returns their output.
inline std::string run_in_own_process(const char* variable, const std::string& value, const std::string& tests) {
  const TempFolder folder;
  const std::string log = (folder / "log.txt").string();
  posix_spawn_file_actions_t actions;
  if (::posix_spawn_file_actions_init(&actions) != 0) return {};
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=" + tests;
  char* const arguments[] = {program.data(), filter.data(), nullptr};
  ::setenv(variable, value.c_str(), 1);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::unsetenv(variable);
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(failed, 0);
  int status = 0;
  if (failed != 0 || ::waitpid(child, &status, 0) != child) return {};
  const auto bytes = read_file(log);
  std::string text(bytes.begin(), bytes.end());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_EQ(text.find("SKIPPED"), std::string::npos) << text;
  return text;
}

}  // namespace tandem::test
