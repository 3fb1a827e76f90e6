// The CPU back end's compiler: any kernels can run its files, so it has one target.
#include "compiler/plain_compiler.h"

namespace tandem::cpu {

const BackendCompiler& backend_compiler() {
  static const PlainCompiler instance("cpu",
                                      "any x86-64 or 64-bit ARM processor; kernels are chosen when the file is loaded");
  return instance;
}

}  // namespace tandem::cpu
