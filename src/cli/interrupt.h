// Ctrl-C, SIGTERM and SIGHUP as a flag that long work polls.
#pragma once

#include <atomic>

namespace tandem {

// From now on a SIGINT, SIGTERM or SIGHUP sets the flag, so that work stops and leaves nothing half-done; a second
// Ctrl-C ends the process at once. A SIGHUP that is ignored (nohup) stays so.
void watch_interrupts();
bool interrupted();
// Whether it was SIGTERM or SIGHUP: they mean the whole program, where Ctrl-C may mean what it is doing.
bool terminated();
// What a shell expects of a program that such a signal ended: 128 + its number; 130 if none came.
int interrupt_exit_code();
// The flag itself, for work that polls one.
const std::atomic<bool>& interrupt_flag();
// Forgets a Ctrl-C; the other two stay.
void clear_interrupt();
// Readable once a signal has come: whoever waits for input waits for this too, and misses none. -1 if not watched.
int interrupt_descriptor();
// Called from a signal handler's point of view: must only do what is safe there (set an atomic). Null removes it.
void on_interrupt(void (*action)(void* context), void* context);

}  // namespace tandem
