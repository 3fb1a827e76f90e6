// Files for the interpreter: the graphs that a CPU would run, and their weights.
#include "compiler/plain_compiler.h"

namespace tandem::reference {

const BackendCompiler& backend_compiler() {
  static const PlainCompiler instance("reference",
                                      "the interpreter, slow and exact on any processor; for tests and for debugging");
  return instance;
}

}  // namespace tandem::reference
