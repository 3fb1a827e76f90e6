// What the library has to say that is no error of a call: the app gives a function that takes it.
#pragma once

#include <functional>
#include <string_view>

namespace tandem {

enum class LogLevel {
  kError,    // Something failed; the call that met it may have found another way.
  kWarning,  // It works, but slower or otherwise than it could.
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

// Takes one message at a time, without a newline at its end. It may be called from any thread, from several at once,
// and from threads of a vendor's library: it must not call tandem. What it throws is dropped.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

}  // namespace tandem
