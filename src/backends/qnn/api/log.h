// The library's messages: from its log, and, where it prints instead, captured from standard output. The library's
// callback has no user pointer. So messages from a thread that works for a program go to that program's log, and
// messages from the library's own threads go to the logs of all programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "backends/qnn/api/abi_config.h"
#include "base/log.h"

namespace tandem::qnn {

// While it lives, it receives the messages of the library's own threads. None arrives after its end.
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

// While it lives, messages of this thread go to this log and to no other. The log must outlive it.
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

// The log callback for the library, and the level to request from it.
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

// For the two above: a message of the library itself.
void log_library_message(LogLevel level, std::string_view message);

}  // namespace tandem::qnn
