// Weights are read where they are mapped. If somebody truncates such a file, or its disk fails, the system has nothing
// to put there and sends the process SIGBUS, which ends it.
//
// Every call notices a file that was changed before it or during it, and returns an error; that alone cannot help where
// memory is touched between the change and the next look. A signal handler can. tandem installs none by itself, because
// signals belong to the app; an app that wants it calls this once, after it has set up handlers of its own.
#pragma once

#include "tandem/export.h"
#include "tandem/status.h"

namespace tandem {

// From now on, touching a part of a file mapped by tandem that cannot be read gives zeros instead of SIGBUS, and the
// call that met them returns an error. Any other SIGBUS goes where it went before. May be called at any time, from any
// thread, and again, which does nothing.
//
// Not covered: threads that block SIGBUS; handlers that the app installs later and that do not pass SIGBUS on; more
// than 1024 files mapped at a time.
TANDEM_API Status guard_file_mappings();

}  // namespace tandem
