#include "backends/qnn/api/power.h"

#include <array>
#include <tuple>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

struct ProfileRow {
  PerformanceProfile profile;
  std::string_view name;
  bool dcvs_enabled;  // Whether the chip may still choose the clock itself.
  abi::PowerMode mode;
  uint32_t sleep_latency_us;
  abi::VoltageCorner lowest;
  abi::VoltageCorner target;
  abi::VoltageCorner highest;
  bool polls;
};

// "Sustained" asks for one step less than the most, which a phone can keep up.
constexpr ProfileRow kProfiles[] = {
    {PerformanceProfile::kBurst, "burst", false, abi::PowerMode::kPerformance, 40, abi::VoltageCorner::kMax,
     abi::VoltageCorner::kMax, abi::VoltageCorner::kMax, true},
    {PerformanceProfile::kSustained, "sustained", false, abi::PowerMode::kPerformance, 100, abi::VoltageCorner::kTurbo,
     abi::VoltageCorner::kTurbo, abi::VoltageCorner::kTurbo, true},
    {PerformanceProfile::kBalanced, "balanced", true, abi::PowerMode::kPerformance, 1000,
     abi::VoltageCorner::kNominalPlus, abi::VoltageCorner::kNominalPlus, abi::VoltageCorner::kNominalPlus, false},
    {PerformanceProfile::kPowerSaver, "power_saver", true, abi::PowerMode::kPerformance, 1000, abi::VoltageCorner::kSvs,
     abi::VoltageCorner::kSvs, abi::VoltageCorner::kSvs, false},
};
// What is voted for at the end: nothing in particular, and as low as it goes.
constexpr ProfileRow kRest = {PerformanceProfile::kPowerSaver,
                              "rest",
                              true,
                              abi::PowerMode::kPowerSaver,
                              1000,
                              abi::VoltageCorner::kDisable,
                              abi::VoltageCorner::kDisable,
                              abi::VoltageCorner::kDisable,
                              false};
constexpr uint32_t kFastRpcLatencyUs = 100;

const ProfileRow& row_of(PerformanceProfile profile) {
  for (const ProfileRow& row : kProfiles) {
    if (row.profile == profile) return row;
  }
  return kRest;
}

abi::Dcvs make_dcvs(const ProfileRow& row, uint32_t id) {
  abi::Dcvs dcvs = {};
  dcvs.power_config_id = id;
  dcvs.set_dcvs_enabled = 1;
  dcvs.dcvs_enabled = row.dcvs_enabled ? 1 : 0;
  dcvs.mode = row.mode;
  dcvs.set_sleep_latency = 1;
  dcvs.sleep_latency_us = row.sleep_latency_us;
  dcvs.set_bus = 1;
  dcvs.bus_min = row.lowest;
  dcvs.bus_target = row.target;
  dcvs.bus_max = row.highest;
  dcvs.set_core = 1;
  dcvs.core_min = row.lowest;
  dcvs.core_target = row.target;
  dcvs.core_max = row.highest;
  return dcvs;
}

}  // namespace

std::string_view performance_profile_name(PerformanceProfile profile) { return row_of(profile).name; }

Result<PerformanceProfile> parse_performance_profile(std::string_view name) {
  for (const ProfileRow& row : kProfiles) {
    if (row.name == name) return row.profile;
  }
  return invalid_argument("there is no performance profile \"{}\"; choose burst, sustained, balanced or power_saver",
                          name);
}

Status PowerVote::set(const abi::Dcvs& dcvs, uint32_t rpc_control_latency_us, const uint32_t* rpc_polling_us) {
  std::array<abi::PowerConfig, 3> configs = {};
  std::array<const abi::PowerConfig*, 4> list = {};
  size_t count = 0;
  configs[count].option = abi::PowerOption::kDcvs;
  configs[count].dcvs = dcvs;
  list[count] = &configs[count];
  ++count;
  if (rpc_control_latency_us != 0) {
    configs[count].option = abi::PowerOption::kRpcControlLatency;
    configs[count].rpc_control_latency_us = rpc_control_latency_us;
    list[count] = &configs[count];
    ++count;
  }
  if (rpc_polling_us != nullptr) {
    configs[count].option = abi::PowerOption::kRpcPollingTime;
    configs[count].rpc_polling_us = *rpc_polling_us;
    list[count] = &configs[count];
  }
  const ErrorListener listener;
  if (const auto result = infrastructure_.set_power_config(id_, list.data()); result != abi::kSuccess) {
    return describe_error(result, "setting the performance profile", listener.said());
  }
  return ok_status();
}

Result<std::unique_ptr<PowerVote>> PowerVote::create(std::shared_ptr<const Device> device, const Options& options) {
  if (device == nullptr) return internal_error("a performance profile needs a device");
  if (options.rpc_polling_us > kMaxRpcPollingUs) {
    return invalid_argument("an RPC polling time of {} us is too long; give 0 (off) to {}", options.rpc_polling_us,
                            kMaxRpcPollingUs);
  }
  const ErrorListener listener;
  const StdoutCapture capture;
  const abi::Infrastructure* found = nullptr;
  if (device->core().device_get_infrastructure == nullptr) {
    return unsupported("the QNN library has no power interface; run without a performance profile");
  }
  if (const auto result = device->core().device_get_infrastructure(&found); result != abi::kSuccess) {
    return describe_error(result, "asking for the power interface", listener.said());
  }
  if (found == nullptr || found->type != 0 || found->performance.create_power_config_id == nullptr ||
      found->performance.destroy_power_config_id == nullptr || found->performance.set_power_config == nullptr) {
    return unsupported("the QNN library's power interface is not one that tandem knows; run without a profile");
  }
  auto vote = std::unique_ptr<PowerVote>(new PowerVote(std::move(device), found->performance));
  if (const auto result = vote->infrastructure_.create_power_config_id(0, 0, &vote->id_); result != abi::kSuccess) {
    return describe_error(result, "starting a performance profile", listener.said());
  }
  vote->has_id_ = true;
  const ProfileRow& row = row_of(options.profile);
  const uint32_t polling = row.polls ? options.rpc_polling_us : 0;
  TANDEM_TRY(vote->set(make_dcvs(row, vote->id_), row.polls ? kFastRpcLatencyUs : 0, &polling));
  return vote;
}

PowerVote::~PowerVote() {
  if (!has_id_) return;
  const StdoutCapture capture;
  const uint32_t polling = 0;
  // Nothing can be done about a failure, and the vote ends with its id anyway.
  std::ignore = set(make_dcvs(kRest, id_), 0, &polling);
  infrastructure_.destroy_power_config_id(id_);
}

}  // namespace tandem::qnn
