// What the library says: through its log, and, where it prints instead, caught on its way to standard output. Both go
// to one sink. The library's callback has no user pointer, so the sink is one for the whole process.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "backends/qnn/api/abi_config.h"

namespace tandem::qnn {

enum class LogLevel : uint32_t { kError = 1, kWarning = 2, kInfo = 3, kVerbose = 4, kDebug = 5 };

// Gets one message at a time, without a newline at its end. Called from any thread, also from several at once and from
// the library's own: it must not call the library. Without a sink, messages are dropped.
using LogSink = std::function<void(LogLevel level, std::string_view message)>;
void set_log_sink(LogSink sink);

// Gives a message to the sink.
void log_message(LogLevel level, std::string_view message);

// What to hand to the library as its log callback.
abi::LogCallback library_log_callback();

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

// While one of these lives, what anything in this process writes to standard output goes to the sink instead (as info).
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

}  // namespace tandem::qnn
