// What main() of our programs does first. A library does none of it: how a process treats its descriptors and signals
// is for the app to decide.
#pragma once

namespace tandem {

// Makes sure that descriptors 0, 1 and 2 are open, so that no file of ours gets one of these numbers and then receives
// what is meant for a terminal. One that was closed fails at every use, as before: a result that cannot be written
// stays an error. False if that is not possible; the program should exit then.
bool reserve_standard_descriptors();

// A write that fails gives an error (EPIPE, EFBIG) instead of a signal that ends the process: SIGPIPE, and SIGXFSZ of
// `ulimit -f`. Returns whether SIGPIPE had its default action before.
bool ignore_write_signals();

}  // namespace tandem
