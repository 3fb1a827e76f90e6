// What the vendor's compiler expects of a graph on the chip: it simulates what it has scheduled. No measurement; its
// own bounds are 5 to 13 % to either side.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem {

struct Estimate {
  uint64_t us = 0;  // Of one call.
  uint64_t us_lower = 0;
  uint64_t us_upper = 0;
  uint64_t ddr_read_bytes = 0;   // Inputs and weights.
  uint64_t ddr_write_bytes = 0;  // Outputs.
  uint64_t spill_bytes = 0;      // Activations that VTCM does not hold, written to memory,
  uint64_t fill_bytes = 0;       // and read back.
  // Ops whose time is missing above, by name and type: "layers.0.attention.q.rope:RotaryEmbedding".
  std::vector<std::string> uncosted_ops;

  bool operator==(const Estimate&) const = default;
};

// Its numbers by the names that they have wherever they are written down.
inline constexpr std::pair<const char*, uint64_t Estimate::*> kEstimateFields[] = {
    {"us", &Estimate::us},
    {"us_lower", &Estimate::us_lower},
    {"us_upper", &Estimate::us_upper},
    {"ddr_read_bytes", &Estimate::ddr_read_bytes},
    {"ddr_write_bytes", &Estimate::ddr_write_bytes},
    {"spill_bytes", &Estimate::spill_bytes},
    {"fill_bytes", &Estimate::fill_bytes},
};

}  // namespace tandem
