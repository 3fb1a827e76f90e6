// The targets table: what a compile can be for, and what each target can do. docs/targets.md explains the columns.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

struct Target {
  std::string_view name;
  std::string_view backend;
  std::string_view description;
  std::vector<WeightFormat> weight_formats;
  std::vector<DType> kv_dtypes;
  bool updates_cache_in_place = false;

  // ---- Of Snapdragon's NPUs ----
  uint32_t soc_model = 0;       // Qualcomm's number.
  int arch = 0;                 // Hexagon architecture.
  int vtcm_mb = 0;              // Its fast memory.
  bool shares_weights = false;  // Methods of one context can have one set of weights.
  bool is_simulated = false;    // The vendor's compiler estimates how fast its graphs are.

  bool is_npu() const { return arch != 0; }
};

// What no graph of an NPU may be larger than; the vendor's compiler refuses it.
inline constexpr uint64_t kNpuGraphLimit = uint64_t{3'670'016} << 10;
// What we let no shard's binary become larger than: some devices load no more than 2 GB.
inline constexpr uint64_t kNpuShardLimit = uint64_t{2'000'000'000};

std::span<const Target> targets();
// The target whose estimates are given for an NPU: itself, or a relative that is simulated, of the same architecture if
// there is one.
const Target& estimated_as(const Target& target);
// An unknown name is an error that lists the known ones.
Result<const Target*> find_target(std::string_view name);

}  // namespace tandem
