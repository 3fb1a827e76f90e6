#include "backends/qnn/execute/platform.h"

#include "backends/interface/probe.h"
#include "backends/qnn/api/library.h"
#include "backends/qnn/api/rpcmem.h"

namespace tandem::qnn {

Platform Platform::here() {
  Platform platform;
  platform.emulator = is_emulator();
  if (!platform.emulator) {
    platform.rpc_library = kRpcLibrary;
    platform.sets_power = true;
  }
  platform.available_memory = tandem::available_memory();
  return platform;
}

}  // namespace tandem::qnn
