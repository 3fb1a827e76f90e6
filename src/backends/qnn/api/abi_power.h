// Our own declarations of HTP's power interface, which deviceGetInfrastructure gives. See abi.h for where the numbers
// come from. Sizes and offsets are measured; what the values do was never seen on hardware here: the x86 library takes
// the calls, answers 0 and clocks nothing.
#pragma once

#include "backends/qnn/api/abi.h"

namespace tandem::qnn::abi {

enum class PowerOption : uint32_t { kDcvs = 1, kRpcControlLatency = 2, kRpcPollingTime = 3 };

enum class PowerMode : uint32_t { kAdjustUpDown = 1, kPowerSaver = 4, kPerformance = 16 };

enum class VoltageCorner : uint32_t {
  kDisable = 16,
  kMin = 32,
  kSvs2 = 48,
  kSvs = 64,
  kSvsPlus = 80,
  kNominal = 96,
  kNominalPlus = 112,
  kTurbo = 128,
  kMax = 160,
};

// Each set_ flag says whether the fields behind it are meant.
struct Dcvs {
  uint32_t power_config_id;
  uint32_t set_dcvs_enabled;
  uint32_t dcvs_enabled;
  PowerMode mode;
  uint32_t set_sleep_latency;
  uint32_t sleep_latency_us;
  uint32_t set_sleep_disabled;
  uint32_t sleep_disabled;
  uint32_t set_bus;
  VoltageCorner bus_min;
  VoltageCorner bus_target;
  VoltageCorner bus_max;
  uint32_t set_core;
  VoltageCorner core_min;
  VoltageCorner core_target;
  VoltageCorner core_max;
};
static_assert(sizeof(Dcvs) == 64);
static_assert(offsetof(Dcvs, set_dcvs_enabled) == 4);
static_assert(offsetof(Dcvs, dcvs_enabled) == 8);
static_assert(offsetof(Dcvs, mode) == 12);
static_assert(offsetof(Dcvs, set_sleep_latency) == 16);
static_assert(offsetof(Dcvs, sleep_latency_us) == 20);
static_assert(offsetof(Dcvs, set_sleep_disabled) == 24);
static_assert(offsetof(Dcvs, sleep_disabled) == 28);
static_assert(offsetof(Dcvs, set_bus) == 32);
static_assert(offsetof(Dcvs, bus_min) == 36);
static_assert(offsetof(Dcvs, bus_target) == 40);
static_assert(offsetof(Dcvs, bus_max) == 44);
static_assert(offsetof(Dcvs, set_core) == 48);
static_assert(offsetof(Dcvs, core_min) == 52);
static_assert(offsetof(Dcvs, core_target) == 56);
static_assert(offsetof(Dcvs, core_max) == 60);

struct PowerConfig {
  PowerOption option;
  union {
    Dcvs dcvs;
    uint32_t rpc_control_latency_us;
    uint32_t rpc_polling_us;
  };
};
static_assert(sizeof(PowerConfig) == 68);
static_assert(offsetof(PowerConfig, dcvs) == 4);
static_assert(offsetof(PowerConfig, rpc_polling_us) == 4);

struct PerfInfrastructure {
  ErrorHandle (*create_power_config_id)(uint32_t device_id, uint32_t core_id, uint32_t* id);
  ErrorHandle (*destroy_power_config_id)(uint32_t id);
  ErrorHandle (*set_power_config)(uint32_t id, const PowerConfig** configs);  // Ends with a null pointer.
  void (*set_memory_config)();
};
static_assert(sizeof(PerfInfrastructure) == 32);
static_assert(offsetof(PerfInfrastructure, destroy_power_config_id) == 8);
static_assert(offsetof(PerfInfrastructure, set_power_config) == 16);

struct Infrastructure {
  uint32_t type;  // 0: performance.
  PerfInfrastructure performance;
};
static_assert(sizeof(Infrastructure) == 40);
static_assert(offsetof(Infrastructure, performance) == 8);

}  // namespace tandem::qnn::abi
