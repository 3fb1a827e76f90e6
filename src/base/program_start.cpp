#include "base/program_start.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <initializer_list>

namespace tandem {

bool reserve_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
    // open() returns the lowest free number, and all below it are open. Opened in the wrong direction, so that using it
    // fails.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return false;
  }
  return true;
}

bool ignore_write_signals() {
  ::signal(SIGXFSZ, SIG_IGN);
  return ::signal(SIGPIPE, SIG_IGN) == SIG_DFL;
}

}  // namespace tandem
