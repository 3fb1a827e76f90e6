// Weights are read from mapped files. If such a file is truncated, or its disk fails, the system cannot supply the page
// and sends the process SIGBUS, which ends it.
//
// Every call detects a file that was changed before or during it, and returns an error; but that is too late where
// memory is read between the change and the next check. A signal handler helps. tandem installs none by itself, because
// signals belong to the app; an app that wants it calls this once, after it has installed its own handlers.
#pragma once

#include "tandem/export.h"
#include "tandem/status.h"

namespace tandem {

// From now on, reading an unreadable part of a file mapped by tandem gives zeros instead of SIGBUS, and the call that
// read them returns an error. Any other SIGBUS is handled as before. May be called at any time, from any thread;
// calling it again does nothing.
//
// Not covered: threads that block SIGBUS; handlers that the app installs later and that do not pass SIGBUS on; more
// than 1024 files mapped at a time.
TANDEM_API Status guard_file_mappings();

}  // namespace tandem
