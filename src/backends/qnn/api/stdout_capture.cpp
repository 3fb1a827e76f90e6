// The part of log.h that redirects standard output.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <mutex>
#include <string>

#include "backends/qnn/api/log.h"

namespace tandem::qnn {
namespace {

[[maybe_unused]] constexpr unsigned kCloseOnExec = 1;  // MFD_CLOEXEC

struct CaptureState {
  std::mutex mutex;
  int depth = 0;
  int saved = -1;   // What descriptor 1 was.
  int caught = -1;  // A file in memory: unlike a pipe, it never fills up and blocks the writer.
};

CaptureState& capture_state() {
  static CaptureState* const instance = new CaptureState;
  return *instance;
}

void redirect(CaptureState& capture) {
#ifdef __ANDROID__
  // There the vendor's library logs to the system, and descriptor 1 is the app's.
  (void)capture;
#else
  // Where standard output is closed there is nothing to protect, and descriptor 1 must not become our file.
  const int saved = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (saved < 0) return;
  // By number: old C libraries have no function for it.
  const int caught = static_cast<int>(::syscall(SYS_memfd_create, "tandem_qnn_stdout", kCloseOnExec));
  if (caught < 0) {
    ::close(saved);
    return;
  }
  // Else writes of two threads may end up in the same place.
  ::fcntl(caught, F_SETFL, O_APPEND);
  std::fflush(stdout);  // What the program had printed before belongs to its standard output.
  if (::dup2(caught, STDOUT_FILENO) < 0) {
    ::close(saved);
    ::close(caught);
    return;
  }
  capture.saved = saved;
  capture.caught = caught;
#endif
}

std::string restore(CaptureState& capture) {
  if (capture.saved < 0) return {};
  std::fflush(stdout);
  // Both go by, and without it whatever the program prints from here on would be lost.
  while (::dup2(capture.saved, STDOUT_FILENO) < 0 && (errno == EINTR || errno == EBUSY)) {
  }
  ::close(capture.saved);
  std::string text;
  std::array<char, 4096> buffer;
  off_t at = 0;
  for (;;) {
    const ssize_t got = ::pread(capture.caught, buffer.data(), buffer.size(), at);
    if (got <= 0) break;
    text.append(buffer.data(), static_cast<size_t>(got));
    at += got;
  }
  ::close(capture.caught);
  capture.saved = -1;
  capture.caught = -1;
  return text;
}

}  // namespace

StdoutCapture::StdoutCapture() {
  const std::lock_guard lock(capture_state().mutex);
  if (capture_state().depth++ == 0) redirect(capture_state());
}

StdoutCapture::~StdoutCapture() {
  std::string text;
  {
    const std::lock_guard lock(capture_state().mutex);
    if (--capture_state().depth == 0) text = restore(capture_state());
  }
  // The app's log may print: only now does that go where it should.
  for (size_t begin = 0; begin < text.size();) {
    size_t end = text.find('\n', begin);
    if (end == std::string::npos) end = text.size();
    if (end > begin) log_library_message(LogLevel::kInfo, std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace tandem::qnn
