// Hidden states for Session::embed(): files keep the final norm's output to themselves, and their methods get one more
// output when they are loaded.
#pragma once

#include "artifact/reader.h"

namespace tandem {

// The program with the final norm's output among the outputs of all methods. Unchanged where a method has none of its
// own to give: binaries for a device have the outputs that they were compiled with.
Artifact with_hidden_output(Artifact program);

}  // namespace tandem
