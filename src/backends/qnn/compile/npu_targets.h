// Snapdragon's NPUs in the targets table. docs/targets.md explains the columns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/targets.h"

namespace tandem {

struct NpuTarget : Target {
  uint32_t soc_model = 0;       // Qualcomm's number.
  int arch = 0;                 // Hexagon architecture.
  int vtcm_mb = 0;              // Its fast memory.
  bool shares_weights = false;  // Methods of one context can have one set of weights.
  bool is_simulated = false;    // The vendor's compiler estimates how fast its graphs are.
};

// The maximum size of an NPU's graph; the vendor's compiler refuses more.
inline constexpr uint64_t kNpuGraphLimit = uint64_t{3'670'016} << 10;
// The maximum size of a shard's binary: some devices load no more than 2 GB.
inline constexpr uint64_t kNpuShardLimit = uint64_t{2'000'000'000};

std::span<const NpuTarget> npu_targets();
// The row of a target that is an NPU.
const NpuTarget& npu_target(std::string_view name);
// The target whose estimates are used for an NPU: itself, or a relative that is simulated, of the same architecture if
// there is one.
const NpuTarget& estimated_as(const NpuTarget& target);

}  // namespace tandem
