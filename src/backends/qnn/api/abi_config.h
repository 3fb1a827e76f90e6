// Our own declarations of QNN's configs (back end, device, context, graph; generic and HTP's), of the description of a
// device, and of logging. See abi.h for where the numbers come from.
//
// A config list is an array of pointers to configs that ends with a null pointer.
#pragma once

#include <cstdarg>

#include "backends/qnn/api/abi.h"

namespace tandem::qnn::abi {

// Logging. There is no user pointer, so a callback has to be process-wide (log.h). Level 0 is refused (11003).
enum class LogLevel : uint32_t { kError = 1, kWarning = 2, kInfo = 3, kVerbose = 4, kDebug = 5 };
using LogCallback = void (*)(const char* format, LogLevel level, uint64_t timestamp, va_list arguments);

// Back end.
enum class BackendOption : uint32_t { kCustom = 0, kErrorReporting = 1, kPlatform = 2 };

struct BackendConfig {
  BackendOption option;
  union {
    void* custom;
    const char* platform;
  };
};
static_assert(sizeof(BackendConfig) == 16);
static_assert(offsetof(BackendConfig, custom) == 8);

// Device.
struct OnChipDevice {
  size_t vtcm_mb;
  uint32_t soc_model;
  bool signed_pd;
  bool dlbc;
  uint32_t arch;
};
static_assert(sizeof(OnChipDevice) == 24);
static_assert(offsetof(OnChipDevice, soc_model) == 8);
static_assert(offsetof(OnChipDevice, signed_pd) == 12);
static_assert(offsetof(OnChipDevice, dlbc) == 13);
static_assert(offsetof(OnChipDevice, arch) == 16);

struct HtpDeviceExtension {
  uint32_t type;  // 0: on the chip.
  OnChipDevice on_chip;
};
static_assert(sizeof(HtpDeviceExtension) == 32);
static_assert(offsetof(HtpDeviceExtension, on_chip) == 8);

struct CoreInfoBody {
  uint32_t id;
  uint32_t type;  // 0: NSP.
  void* extension;
};
static_assert(sizeof(CoreInfoBody) == 16);
static_assert(offsetof(CoreInfoBody, type) == 4);
static_assert(offsetof(CoreInfoBody, extension) == 8);

struct CoreInfo {
  uint32_t version;  // 1
  CoreInfoBody body;
};
static_assert(sizeof(CoreInfo) == 24);
static_assert(offsetof(CoreInfo, body) == 8);

struct HardwareDeviceBody {
  uint32_t id;
  uint32_t type;
  uint32_t core_count;
  CoreInfo* cores;
  HtpDeviceExtension* extension;
};
static_assert(sizeof(HardwareDeviceBody) == 32);
static_assert(offsetof(HardwareDeviceBody, core_count) == 8);
static_assert(offsetof(HardwareDeviceBody, cores) == 16);
static_assert(offsetof(HardwareDeviceBody, extension) == 24);

struct HardwareDevice {
  uint32_t version;  // 1
  HardwareDeviceBody body;
};
static_assert(sizeof(HardwareDevice) == 40);
static_assert(offsetof(HardwareDevice, body) == 8);

struct PlatformInfoBody {
  uint32_t device_count;
  HardwareDevice* devices;
};
static_assert(sizeof(PlatformInfoBody) == 16);
static_assert(offsetof(PlatformInfoBody, devices) == 8);

struct PlatformInfo {
  uint32_t version;  // 1
  PlatformInfoBody body;
};
static_assert(sizeof(PlatformInfo) == 24);
static_assert(offsetof(PlatformInfo, body) == 8);

enum class DeviceOption : uint32_t { kCustom = 0, kPlatformInfo = 1 };

struct DeviceConfig {
  DeviceOption option;
  union {
    void* custom;
    PlatformInfo* platform;
  };
};
static_assert(sizeof(DeviceConfig) == 16);
static_assert(offsetof(DeviceConfig, custom) == 8);
static_assert(offsetof(DeviceConfig, platform) == 8);

enum class HtpDeviceOption : uint32_t { kSoc = 0, kArch = 1, kSignedPd = 2 };

// The payload is at offset 4 or at 8, by the library's version (version_rules.h); the struct is longer than either ever
// was.
struct HtpDeviceConfig {
  HtpDeviceOption option;
  uint32_t words[9];  // From offset 4 on.
};
static_assert(sizeof(HtpDeviceConfig) == 40);
static_assert(offsetof(HtpDeviceConfig, words) == 4);

// Context.
enum class ContextOption : uint32_t { kCustom = 0, kPriority = 1, kEnableGraphs = 5 };

struct ContextConfig {
  ContextOption option;
  union {
    void* custom;
    uint32_t priority;
    const char* const* enable_graphs;  // Ends with a null pointer.
  };
};
static_assert(sizeof(ContextConfig) == 16);
static_assert(offsetof(ContextConfig, custom) == 8);
static_assert(offsetof(ContextConfig, enable_graphs) == 8);

enum class HtpContextOption : uint32_t { kWeightSharing = 1, kRegisterMultiContexts = 2, kFileReadBudgetMb = 3 };

struct HtpGroupRegistration {
  Handle first;  // Null for the first context of a group.
  uint64_t spill_fill_bytes;
};
static_assert(sizeof(HtpGroupRegistration) == 16);
static_assert(offsetof(HtpGroupRegistration, spill_fill_bytes) == 8);

struct HtpContextConfig {
  HtpContextOption option;
  union {
    HtpGroupRegistration group;
    bool weight_sharing;
    uint64_t file_read_budget_mb;
  };
};
static_assert(sizeof(HtpContextConfig) == 24);
static_assert(offsetof(HtpContextConfig, weight_sharing) == 8);
static_assert(offsetof(HtpContextConfig, group) == 8);

// Graph.
enum class GraphOption : uint32_t { kCustom = 0, kPriority = 3 };

struct GraphConfig {
  GraphOption option;
  union {
    void* custom;
    uint32_t priority;
  };
};
static_assert(sizeof(GraphConfig) == 16);
static_assert(offsetof(GraphConfig, custom) == 8);

enum class HtpGraphOption : uint32_t {
  kOptimization = 1,
  kPrecision = 2,
  kVtcmMb = 3,
  kHvxThreads = 6,
  kFinalizeConfig = 7,
};
enum class HtpOptimization : uint32_t { kLevel = 3, kDlbc = 4 };
enum class Precision : uint32_t { kFloat32 = 0, kFloat16 = 1 };

struct HtpOptimizationValue {
  HtpOptimization type;
  float value;  // A float even for flags.
};
static_assert(sizeof(HtpOptimizationValue) == 8);
static_assert(offsetof(HtpOptimizationValue, value) == 4);

// An option of the compiler by its name. The compiler ignores unknown names.
struct HtpFinalizeConfig {
  const char* key;
  Scalar value;
};
static_assert(sizeof(HtpFinalizeConfig) == 24);
static_assert(offsetof(HtpFinalizeConfig, value) == 8);

struct HtpGraphConfig {
  HtpGraphOption option;
  union {
    uint64_t size_guard[6];  // The largest member, which we do not use, ends at 52.
    HtpOptimizationValue optimization;
    Precision precision;
    uint32_t vtcm_mb;
    uint64_t hvx_threads;
    HtpFinalizeConfig finalize;
  };
};
static_assert(sizeof(HtpGraphConfig) == 56);
static_assert(offsetof(HtpGraphConfig, optimization) == 8);
static_assert(offsetof(HtpGraphConfig, vtcm_mb) == 8);
static_assert(offsetof(HtpGraphConfig, hvx_threads) == 8);
static_assert(offsetof(HtpGraphConfig, finalize) == 8);

}  // namespace tandem::qnn::abi
