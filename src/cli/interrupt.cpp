#include "cli/interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

namespace tandem {
namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<int> g_signal{0};  // The first one, but signals that end the program replace a Ctrl-C.
std::atomic<void (*)(void*)> g_action{nullptr};
std::atomic<void*> g_context{nullptr};
int g_pipe[2] = {-1, -1};

void handle(int signal) {
  const int saved_errno = errno;
  if (g_interrupted.exchange(true) && signal == SIGINT) _exit(128 + signal);
  if (const int earlier = g_signal.load(); earlier == 0 || earlier == SIGINT) g_signal.store(signal);
  const ssize_t ignored = ::write(g_pipe[1], "", 1);  // If it is full, it is already readable.
  (void)ignored;
  if (auto* action = g_action.load()) action(g_context.load());
  errno = saved_errno;
}

}  // namespace

void watch_interrupts() {
  if (g_pipe[0] < 0 && ::pipe2(g_pipe, O_CLOEXEC | O_NONBLOCK) != 0) g_pipe[0] = g_pipe[1] = -1;
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  // One at a time: they share the state above.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&action.sa_mask, signal);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  struct sigaction hangup {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) return;
  sigaction(SIGHUP, &action, nullptr);
}

bool interrupted() { return g_interrupted.load(); }
bool terminated() { return g_signal.load() == SIGTERM || g_signal.load() == SIGHUP; }
int interrupt_exit_code() { return 128 + (interrupted() ? g_signal.load() : SIGINT); }
const std::atomic<bool>& interrupt_flag() { return g_interrupted; }
int interrupt_descriptor() { return g_pipe[0]; }

void clear_interrupt() {
  int expected = SIGINT;
  // A SIGTERM in between finds either its own number stored or the flag cleared, and sets both.
  if (!g_signal.compare_exchange_strong(expected, 0)) return;
  g_interrupted.store(false);
  char drained[16];
  while (::read(g_pipe[0], drained, sizeof(drained)) > 0) {
  }
  if (terminated()) {  // It arrived meanwhile.
    g_interrupted.store(true);
    const ssize_t ignored = ::write(g_pipe[1], "", 1);
    (void)ignored;
  }
}

void on_interrupt(void (*action)(void*), void* context) {
  g_action.store(nullptr);
  g_context.store(context);
  g_action.store(action);
}

}  // namespace tandem
