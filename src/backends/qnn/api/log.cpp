#include "backends/qnn/api/log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace tandem::qnn {
namespace {

constexpr size_t kRememberedErrors = 16;
constexpr size_t kReportedErrors = 3;
constexpr size_t kReportedLength = 400;

struct LogState {
  std::shared_mutex logs_mutex;  // Shared while a message is delivered, so that a log does not end under it.
  std::vector<const OpenLog*> logs;
  std::mutex mutex;
  std::array<std::string, kRememberedErrors> errors;  // A ring; error n is at n % size.
  uint64_t error_count = 0;
};

// Never destroyed: the library's threads may log while the process ends.
LogState& state() {
  static LogState* const instance = new LogState;
  return *instance;
}

thread_local const Log* t_scope = nullptr;

// Every graphCreate of 2.51 logs this at error level, and nothing is wrong.
bool is_harmless(std::string_view message) {
  return message.find("unexpected GraphHtpSettings option 66") != std::string_view::npos;
}

std::string_view trimmed(std::string_view message) {
  while (!message.empty() && message.front() == ' ') message.remove_prefix(1);
  while (!message.empty() && (message.back() == '\n' || message.back() == '\r' || message.back() == ' ')) {
    message.remove_suffix(1);
  }
  return message;
}

// The library's warnings are what others call information ("Initializing HtpProvider" at every start), and its
// information is a line for each step of each call. It may use numbers that we do not know.
LogLevel level_of(abi::LogLevel level) {
  if (level <= abi::LogLevel::kError) return LogLevel::kError;
  return level == abi::LogLevel::kWarning ? LogLevel::kInfo : LogLevel::kDebug;
}

void library_callback(const char* format, abi::LogLevel library_level, uint64_t /*timestamp*/, va_list arguments) {
  if (format == nullptr) return;
  std::array<char, 2048> buffer;
  const int length = std::vsnprintf(buffer.data(), buffer.size(), format, arguments);
  if (length < 0) return;
  const std::string_view message = trimmed({buffer.data(), std::min(static_cast<size_t>(length), buffer.size() - 1)});
  if (message.empty()) return;
  LogLevel level = level_of(library_level);
  if (level == LogLevel::kError && is_harmless(message)) level = LogLevel::kDebug;
  // A callback from C: nothing may leave it.
  try {
    log_library_message(level, message);
  } catch (...) {  // NOLINT: a log that cannot be written is no reason to stop.
  }
}

}  // namespace

OpenLog::OpenLog(Log log) : log_(std::move(log)) {
  const std::lock_guard lock(state().logs_mutex);
  state().logs.push_back(this);
}

OpenLog::~OpenLog() {
  const std::lock_guard lock(state().logs_mutex);
  std::erase(state().logs, this);
}

LogScope::LogScope(const Log& log) : before_(std::exchange(t_scope, &log)) {}

LogScope::~LogScope() { t_scope = before_; }

void log_message(LogLevel level, std::string_view message) {
  if (t_scope != nullptr) return t_scope->write(level, message);
  const std::shared_lock lock(state().logs_mutex);
  for (const OpenLog* const open : state().logs) open->log().write(level, message);
}

void log_library_message(LogLevel level, std::string_view message) {
  if (level == LogLevel::kError) {
    const std::lock_guard lock(state().mutex);
    state().errors[state().error_count++ % kRememberedErrors] = message;
  }
  log_message(level, "QNN: " + std::string(message));
}

abi::LogCallback library_log_callback() { return library_callback; }

abi::LogLevel library_log_level(LogLevel level) {
  switch (level) {
    case LogLevel::kError:
    case LogLevel::kWarning: return abi::LogLevel::kError;
    case LogLevel::kInfo: return abi::LogLevel::kWarning;
    case LogLevel::kDebug: return abi::LogLevel::kInfo;
  }
  return abi::LogLevel::kError;
}

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
