#include "base/log.h"

#include <utility>

namespace tandem {

Log::Log(LogCallback callback, LogLevel finest) {
  if (!callback) return;
  callback_ = std::make_shared<const LogCallback>(std::move(callback));
  finest_ = finest;
}

void Log::write(LogLevel level, std::string_view message) const noexcept {
  if (!wants(level)) return;
  try {
    (*callback_)(level, message);
  } catch (...) {  // NOLINT: a message that cannot be written is no reason to stop.
  }
}

}  // namespace tandem
