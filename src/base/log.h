// The app's log function, as the library uses it. A Log is cheap to copy; one that was made without a function drops
// what it is given.
#pragma once

#include <memory>
#include <string_view>

#include "tandem/log.h"

namespace tandem {

class Log {
 public:
  Log() = default;
  explicit Log(LogCallback callback, LogLevel finest = LogLevel::kWarning);

  // The finest level that somebody reads.
  LogLevel finest() const { return finest_; }
  bool wants(LogLevel level) const { return callback_ != nullptr && level <= finest_; }
  // What the app's function throws ends here.
  void write(LogLevel level, std::string_view message) const noexcept;

 private:
  std::shared_ptr<const LogCallback> callback_;
  LogLevel finest_ = LogLevel::kError;
};

}  // namespace tandem
