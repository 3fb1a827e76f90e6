// What the library says: through its log, and, where it prints instead, caught on its way to standard output. The
// library's callback has no user pointer. So what it says in a thread that works for a program goes to that program's
// log, and what it says in threads of its own goes to the logs of all programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/qnn/api/abi_config.h"
#include "base/log.h"

namespace tandem::qnn {

// While it lives, it gets what the library says in threads of its own. No message comes after its end.
class OpenLog {
 public:
  explicit OpenLog(Log log);
  ~OpenLog();
  OpenLog(const OpenLog&) = delete;
  OpenLog& operator=(const OpenLog&) = delete;

  const Log& log() const { return log_; }

 private:
  Log log_;
};

// While it lives, what is said in this thread goes to this log and to no other. The log must outlive it.
class LogScope {
 public:
  explicit LogScope(const Log& log);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  const Log* before_;
};

// A message of ours.
void log_message(LogLevel level, std::string_view message);

// What to hand to the library as its log callback, and the level that it should be asked for.
abi::LogCallback library_log_callback();
abi::LogLevel library_log_level(LogLevel level);

// Collects the errors that the library logs between its construction and said(), by any thread: when a call fails, its
// reason is only there. Messages known to be harmless are left out.
class ErrorListener {
 public:
  ErrorListener();
  // The last few, in one line; "" if there were none.
  std::string said() const;

 private:
  uint64_t start_;
};

// While one of these lives, what anything in this process writes to standard output goes to the log instead (as info).
// There is one standard output, so other threads' writes are caught as well, and so is what a child process forked in
// the meantime writes: keep it around single calls of the library that print. Several may live at once, in several
// threads; the first redirects, the last restores.
class StdoutCapture {
 public:
  StdoutCapture();
  ~StdoutCapture();
  StdoutCapture(const StdoutCapture&) = delete;
  StdoutCapture& operator=(const StdoutCapture&) = delete;
};

// For the two above: what the library itself has said.
void log_library_message(LogLevel level, std::string_view message);

}  // namespace tandem::qnn
