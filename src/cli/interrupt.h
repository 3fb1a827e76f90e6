// Ctrl-C and SIGTERM as a flag that long work looks at.
#pragma once

#include <atomic>

namespace tandem {

// From now on the first SIGINT or SIGTERM sets the flag; a second one ends the process at once.
void watch_interrupts();
bool interrupted();
// The flag itself, for work that wants one to look at.
const std::atomic<bool>& interrupt_flag();
void clear_interrupt();
// Called from a signal handler's point of view: must only do what is safe there (set an atomic). Null removes it.
void on_interrupt(void (*action)(void* context), void* context);

}  // namespace tandem
