// Runs code in a child process: code that may end the process or change global state, such as signal handlers.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <string>

namespace tandem::test {

// How it ended: "0" and other exit codes, "signal 7", "exception". `work` returns the exit code.
template <typename Work>
std::string in_child(Work&& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return "no process";
  if (child == 0) {
    int code = 101;
    try {
      code = work();
    } catch (...) {
      code = 100;
    }
    std::fflush(nullptr);
    ::_exit(code);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return "lost";
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return WEXITSTATUS(status) == 100 ? "exception" : std::to_string(WEXITSTATUS(status));
}

}  // namespace tandem::test
