// Performance profiles: how fast the NPU is clocked while a program is loaded, and how the CPU waits for it.
//
// The x86 library answers 0 to all of these calls and clocks nothing, so what a profile does could not be measured
// here; the values are those that public run times use.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "backends/qnn/api/backend.h"
#include "tandem/status.h"

namespace tandem::qnn {

enum class PerformanceProfile {
  kBurst,      // As fast as it goes, until it gets warm.
  kSustained,  // As fast as it goes for long.
  kBalanced,
  kPowerSaver,
};
std::string_view performance_profile_name(
    PerformanceProfile profile);  // "burst", "sustained", "balanced", "power_saver"
Result<PerformanceProfile> parse_performance_profile(std::string_view name);

inline constexpr uint32_t kMaxRpcPollingUs = 9999;  // The library's limit.

// A vote for clocks that lasts as long as the object.
class PowerVote {
 public:
  struct Options {
    PerformanceProfile profile = PerformanceProfile::kBurst;
    // How long the CPU spins for the DSP's answer before it sleeps; 0: it does not spin. Only the two fast profiles
    // spin: the others are chosen to save power.
    uint32_t rpc_polling_us = kMaxRpcPollingUs;
  };
  static Result<std::unique_ptr<PowerVote>> create(std::shared_ptr<const Device> device, const Options& options);
  ~PowerVote();  // Votes for rest, then takes the vote back.
  PowerVote(const PowerVote&) = delete;
  PowerVote& operator=(const PowerVote&) = delete;

 private:
  PowerVote(std::shared_ptr<const Device> device, const abi::PerfInfrastructure& infrastructure)
      : device_(std::move(device)), infrastructure_(infrastructure) {}
  Status set(const abi::Dcvs& dcvs, uint32_t rpc_control_latency_us, const uint32_t* rpc_polling_us);

  std::shared_ptr<const Device> device_;
  abi::PerfInfrastructure infrastructure_;
  uint32_t id_ = 0;
  bool has_id_ = false;
};

}  // namespace tandem::qnn
