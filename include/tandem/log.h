// Log messages of the library, which are not errors of a call: the app supplies a function that receives them.
#pragma once

#include <functional>
#include <string_view>

namespace tandem {

enum class LogLevel {
  kError,    // Something failed; the call may have found another way.
  kWarning,  // It works, but slower than it could, or differently.
  kInfo,
  kDebug,
};

// "error", "warning", "info", "debug"
inline const char* log_level_name(LogLevel level) {
  switch (level) {
    case LogLevel::kError: return "error";
    case LogLevel::kWarning: return "warning";
    case LogLevel::kInfo: return "info";
    case LogLevel::kDebug: return "debug";
  }
  return "unknown";
}

// Receives one message at a time, without a trailing newline. It may be called from any thread, from several at once,
// and from threads of a vendor's library: it must not call tandem. Its exceptions are dropped.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

}  // namespace tandem
