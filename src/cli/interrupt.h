// Ctrl-C, SIGTERM and SIGHUP as a flag that long work polls.
#pragma once

#include <atomic>

namespace tandem {

// From now on a SIGINT, SIGTERM or SIGHUP sets the flag, so that work stops and leaves nothing half-done; a second
// Ctrl-C ends the process at once. An ignored SIGHUP (nohup) stays ignored.
void watch_interrupts();
bool interrupted();
// Whether it was SIGTERM or SIGHUP: they end the program, where Ctrl-C may only end its current work.
bool terminated();
// The exit status that a shell expects of a program ended by such a signal: 128 + its number; 130 if none arrived.
int interrupt_exit_code();
// The flag itself, for work that polls one.
const std::atomic<bool>& interrupt_flag();
// Forgets a Ctrl-C; the other two stay.
void clear_interrupt();
// Readable once a signal has arrived: code that waits for input waits for this too, and misses none. -1 if not watched.
int interrupt_descriptor();
// Called from the signal handler: must only do what is safe there (set an atomic). Null removes it.
void on_interrupt(void (*action)(void* context), void* context);

}  // namespace tandem
