#include "cli/input.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "cli/interrupt.h"

namespace tandem {
namespace {

// Appends the available input, waiting for at least one byte. False at the end, or if a signal arrived meanwhile.
Result<bool> read_some(std::string& text) {
  char buffer[65536];
  for (;;) {
    pollfd waiting[2] = {{STDIN_FILENO, POLLIN, 0}, {interrupt_descriptor(), POLLIN, 0}};
    if (::poll(waiting, 2, -1) < 0 && errno != EINTR) return io_error("waiting for input: {}", std::strerror(errno));
    if (interrupted()) return false;
    if (waiting[0].revents == 0) continue;
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof(buffer));
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if (count >= 0) return count > 0;
    if (errno != EINTR && errno != EAGAIN) return io_error("standard input cannot be read ({})", std::strerror(errno));
  }
}

Error too_large(uint64_t limit, const char* what) {
  return resource_exhausted("{} has more than {} MB; that is more than this is made for", what, limit >> 20);
}

}  // namespace

Result<std::string> read_stdin(uint64_t limit) {
  std::string text;
  for (;;) {
    TANDEM_ASSIGN(const bool more, read_some(text));
    if (text.size() > limit) return too_large(limit, "standard input");
    if (!more) return text;
  }
}

Result<std::optional<std::string>> LineReader::next() {
  for (;;) {
    const size_t end = buffer_.find('\n', scanned_);
    if (end != std::string::npos) {
      std::string line = buffer_.substr(start_, end - start_);
      start_ = scanned_ = end + 1;
      return std::optional<std::string>(std::move(line));
    }
    buffer_.erase(0, start_);
    start_ = 0;
    scanned_ = buffer_.size();
    if (buffer_.size() > kMaxInput) return too_large(kMaxInput, "a line of the input");
    if (!ended_) {
      TANDEM_ASSIGN(const bool more, read_some(buffer_));
      if (more) continue;
      if (interrupted()) return std::optional<std::string>();
      ended_ = true;
    }
    if (buffer_.empty()) return std::optional<std::string>();
    scanned_ = 0;
    return std::optional<std::string>(std::exchange(buffer_, {}));
  }
}

}  // namespace tandem
