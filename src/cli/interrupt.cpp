#include "cli/interrupt.h"

#include <signal.h>
#include <unistd.h>

namespace tandem {
namespace {

std::atomic<bool> g_interrupted{false};
std::atomic<void (*)(void*)> g_action{nullptr};
std::atomic<void*> g_context{nullptr};

void handle(int) {
  if (g_interrupted.exchange(true)) _exit(130);
  if (auto* action = g_action.load()) action(g_context.load());
}

}  // namespace

void watch_interrupts() {
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() { return g_interrupted.load(); }
const std::atomic<bool>& interrupt_flag() { return g_interrupted; }
void clear_interrupt() { g_interrupted.store(false); }

void on_interrupt(void (*action)(void*), void* context) {
  g_action.store(nullptr);
  g_context.store(context);
  g_action.store(action);
}

}  // namespace tandem
