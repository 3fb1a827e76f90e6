#include "backends/qnn/api/log.h"

#include <array>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

namespace tandem::qnn {
namespace {

constexpr size_t kRememberedErrors = 16;
constexpr size_t kReportedErrors = 3;
constexpr size_t kReportedLength = 400;

struct LogState {
  std::mutex mutex;
  std::shared_ptr<const LogSink> sink;
  std::array<std::string, kRememberedErrors> errors;  // A ring; error n is at n % size.
  uint64_t error_count = 0;
};

// Never destroyed: the library's threads may log while the process ends.
LogState& state() {
  static LogState* const instance = new LogState;
  return *instance;
}

// Every graphCreate of 2.51 logs this at error level, and nothing is wrong.
bool is_harmless(std::string_view message) {
  return message.find("unexpected GraphHtpSettings option 66") != std::string_view::npos;
}

std::string_view without_line_end(std::string_view message) {
  while (!message.empty() && (message.back() == '\n' || message.back() == '\r' || message.back() == ' ')) {
    message.remove_suffix(1);
  }
  return message;
}

LogLevel level_of(abi::LogLevel level) {
  const auto number = static_cast<uint32_t>(level);
  if (number <= 1) return LogLevel::kError;
  return number >= 5 ? LogLevel::kDebug : static_cast<LogLevel>(number);
}

void library_callback(const char* format, abi::LogLevel library_level, uint64_t /*timestamp*/, va_list arguments) {
  if (format == nullptr) return;
  std::array<char, 2048> buffer;
  const int length = std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  if (length < 0) return;
  const std::string_view message =
      without_line_end({buffer.data(), std::min(static_cast<size_t>(length), buffer.size() - 1)});
  if (message.empty()) return;
  LogLevel level = level_of(library_level);
  if (level == LogLevel::kError && is_harmless(message)) level = LogLevel::kVerbose;
  // A callback from C: nothing may leave it.
  try {
    log_message(level, message);
  } catch (...) {  // NOLINT: a log that cannot be written is no reason to stop.
  }
}

}  // namespace

void set_log_sink(LogSink sink) {
  auto shared = sink ? std::make_shared<const LogSink>(std::move(sink)) : nullptr;
  const std::lock_guard lock(state().mutex);
  state().sink = std::move(shared);
}

void log_message(LogLevel level, std::string_view message) {
  std::shared_ptr<const LogSink> sink;
  {
    const std::lock_guard lock(state().mutex);
    if (level == LogLevel::kError) state().errors[state().error_count++ % kRememberedErrors] = message;
    sink = state().sink;
  }
  if (sink != nullptr) (*sink)(level, message);
}

abi::LogCallback library_log_callback() { return library_callback; }

ErrorListener::ErrorListener() {
  const std::lock_guard lock(state().mutex);
  start_ = state().error_count;
}

std::string ErrorListener::said() const {
  const std::lock_guard lock(state().mutex);
  const uint64_t end = state().error_count;
  const uint64_t oldest = end > kReportedErrors ? end - kReportedErrors : 0;
  std::string line;
  for (uint64_t i = std::max(start_, oldest); i < end; ++i) {
    const std::string& message = state().errors[i % kRememberedErrors];
    if (!line.empty() && line.find(message) != std::string::npos) continue;
    if (!line.empty()) line += " | ";
    line += message;
  }
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  if (line.size() > kReportedLength) line = line.substr(0, kReportedLength) + "...";
  return line;
}

}  // namespace tandem::qnn
