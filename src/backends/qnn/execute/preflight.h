// Checks before a binary is passed to the library, whose own answers to a wrong version, chip or size are an error
// number at best and a crash at worst.
#pragma once

#include "artifact/header.h"
#include "backends/qnn/api/backend.h"
#include "backends/qnn/execute/platform.h"
#include "tandem/status.h"

namespace tandem::qnn {

// The library that runs a binary must not be older than the one that compiled it.
Status check_versions(const DeviceInfo& compiled, const abi::Version& core, const abi::Version& htp,
                      const std::string& library);

// Whether binaries for `compiled` run on this platform. `chip` is the result of query_chip(), ignored on the emulator.
Status check_target(const DeviceInfo& compiled, const Platform& platform, const ChipInfo& chip);

// Bytes for the binaries and for the memory of one session (states, inputs and outputs), according to the header.
uint64_t memory_needed(const ArtifactHeader& header);
Status check_memory(const ArtifactHeader& header, const Platform& platform);

// What one context takes on the NPU: a shard's binary and scratch memory. No more than the limit is possible.
inline constexpr uint64_t kContextLimit = uint64_t{4} << 30;
uint64_t context_bytes(const ArtifactHeader& header, const Shard& shard);
Status check_contexts(const ArtifactHeader& header);

}  // namespace tandem::qnn
