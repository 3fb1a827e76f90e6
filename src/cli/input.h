// Standard input: all of it, or line by line; bounded, so that a wrong file cannot exhaust memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "tandem/status.h"

namespace tandem {

inline constexpr uint64_t kMaxInput = uint64_t{64} << 20;

// All of standard input.
Result<std::string> read_stdin(uint64_t limit = kMaxInput);

class LineReader {
 public:
  // The next line without its newline; nothing at the end of the input, or if a signal arrived (interrupted()). A line
  // of more than kMaxInput bytes is an error.
  Result<std::optional<std::string>> next();
  // Whether another line is already available; if not, the sender may be waiting for an answer first.
  bool has_line() const { return buffer_.find('\n', start_) != std::string::npos; }

 private:
  std::string buffer_;
  size_t start_ = 0;    // Of the next line.
  size_t scanned_ = 0;  // Up to here there is no newline.
  bool ended_ = false;
};

}  // namespace tandem
