// Snapdragon's NPUs in the targets table. docs/targets.md explains the columns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/targets.h"

namespace tandem {

// The maximum size of an NPU's graph; the vendor's compiler refuses more.
inline constexpr uint64_t kNpuGraphLimit = uint64_t{3'670'016} << 10;
// The maximum size of a shard's binary unless the user asks for larger ones: some devices load no more than 2 GB.
inline constexpr uint64_t kNpuShardLimit = uint64_t{2'000'000'000};

inline constexpr int64_t kMaxVtcmMb = 64;

struct NpuTarget : Target {
  uint32_t soc_model = 0;       // Qualcomm's number.
  int arch = 0;                 // Hexagon architecture.
  int vtcm_mb = 0;              // Its fast memory.
  bool shares_weights = false;  // Methods of one context can have one set of weights.
  bool is_simulated = false;    // The vendor's compiler estimates how fast its graphs are.
  uint64_t graph_limit = kNpuGraphLimit;
  uint64_t binary_limit = kNpuGraphLimit;  // Of a binary that the user asks for,
  uint64_t usual_limit = kNpuShardLimit;   // and of others.
};

std::span<const NpuTarget> npu_targets();
// A chip by what it is, without a name.
NpuTarget make_npu_target(uint32_t soc_model, int arch, int vtcm_mb);
// The row of a target that is an NPU.
const NpuTarget& npu_target(std::string_view name);
// The target whose estimates are used for an NPU: itself, or a relative that is simulated, of the same architecture if
// there is one.
const NpuTarget& estimated_as(const NpuTarget& target);

}  // namespace tandem
