// The platform that a program is loaded on: facts about this machine that loading depends on, gathered so that tests
// can simulate another machine.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

namespace tandem::qnn {

struct Platform {
  bool emulator = true;  // Qualcomm's library for x86: it takes any chip for its own.
  uint64_t available_memory = std::numeric_limits<uint64_t>::max();  // Bytes; the most there is where nobody knows.
  std::string rpc_library;                                           // For shared buffers; "" if the platform has none.
  bool sets_power = false;                                           // Whether performance profiles mean anything.

  static Platform here();
};

}  // namespace tandem::qnn
