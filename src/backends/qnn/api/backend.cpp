#include "backends/qnn/api/backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <optional>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/version_rules.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

struct SocArch {
  uint32_t soc_model;
  int arch;
};
constexpr SocArch kKnownSocs[] = {
    {30, 68}, {37, 68}, {39, 68}, {62, 68}, {93, 68}, {36, 69}, {42, 69}, {53, 69}, {43, 73}, {46, 73}, {52, 73},
    {60, 73}, {68, 73}, {77, 73}, {57, 75}, {69, 79}, {75, 79}, {72, 81}, {87, 81}, {88, 81}, {97, 81},
};

constexpr int kArchs[] = {68, 69, 73, 75, 79, 81};

// Of the first device in this process; 0 before there was one.
std::atomic<int> process_arch = 0;

Status check(const DeviceOptions& options) {
  if (options.soc_model == 0) {
    // Without a config the x86 library silently compiles for V68.
    if (!options.is_on_chip)
      return invalid_argument("the QNN emulator needs to be told which SoC to be; give its number");
    return {};
  }
  bool known = false;
  for (const int arch : kArchs) known = known || arch == options.arch;
  if (!known) {
    return unsupported("tandem does not know the Hexagon architecture V{}; it knows V68, V69, V73, V75, V79 and V81",
                       options.arch);
  }
  const int right_arch = known_arch(options.soc_model);
  if (right_arch != 0 && right_arch != options.arch) {
    return invalid_argument("SoC number {} has the architecture V{}, not V{}", options.soc_model, right_arch,
                            options.arch);
  }
  if (options.vtcm_mb < 1 || options.vtcm_mb > 64) {
    return invalid_argument("{} MB of VTCM make no sense; chips have 2 to 16", options.vtcm_mb);
  }
  return {};
}

// Answers to an option that a platform does not have or does not allow.
bool is_refusal(abi::ErrorHandle result) {
  const auto code = static_cast<uint32_t>(result & abi::kErrorCodeMask);
  constexpr uint32_t kRefusals[] = {kCodeNotSupported, kCodeInvalidArgument, kCodeNotPermitted,
                                    kCodePlatformNotSupported, kCodeInvalidDeviceConfig};
  return std::ranges::find(kRefusals, code) != std::end(kRefusals);
}

// The configs for deviceCreate, and all that they point to.
struct DeviceConfigs {
  DeviceConfigs(const DeviceOptions& options, std::optional<size_t> payload_offset) {
    extension.on_chip.vtcm_mb = static_cast<size_t>(options.vtcm_mb);
    extension.on_chip.soc_model = options.soc_model;
    extension.on_chip.arch = static_cast<uint32_t>(options.arch);
    extension.on_chip.signed_pd = options.signed_pd;
    core.version = 1;
    device.version = 1;
    device.body.core_count = 1;
    device.body.cores = &core;
    device.body.extension = &extension;
    platform.version = 1;
    platform.body.device_count = 1;
    platform.body.devices = &device;
    soc.option = abi::HtpDeviceOption::kSoc;
    // One number, written to both offsets: whatever the library's version, it finds it.
    soc.words[0] = soc.words[1] = options.soc_model;
    signed_pd.option = abi::HtpDeviceOption::kSignedPd;
    size_t count = 0;
    if (options.soc_model != 0) {
      configs[count].option = abi::DeviceOption::kPlatformInfo;
      configs[count++].platform = &platform;
      configs[count].option = abi::DeviceOption::kCustom;
      configs[count++].custom = &soc;
    }
    if (options.signed_pd && payload_offset) {
      // The number of the device, 0, and whether it is wanted.
      signed_pd.words[(*payload_offset - offsetof(abi::HtpDeviceConfig, words)) / sizeof(uint32_t) + 1] = 1;
      configs[count].option = abi::DeviceOption::kCustom;
      configs[count++].custom = &signed_pd;
    }
    for (size_t i = 0; i < count; ++i) list[i] = &configs[i];
  }
  DeviceConfigs(const DeviceConfigs&) = delete;
  DeviceConfigs& operator=(const DeviceConfigs&) = delete;

  abi::HtpDeviceExtension extension = {};
  abi::CoreInfo core = {};
  abi::HardwareDevice device = {};
  abi::PlatformInfo platform = {};
  abi::HtpDeviceConfig soc = {};
  abi::HtpDeviceConfig signed_pd = {};
  std::array<abi::DeviceConfig, 3> configs = {};
  std::array<const abi::DeviceConfig*, 4> list = {};
};

}  // namespace

int known_arch(uint32_t soc_model) {
  for (const SocArch& known : kKnownSocs) {
    if (known.soc_model == soc_model) return known.arch;
  }
  return 0;
}

std::span<const int> known_archs() { return kArchs; }

ChipInfo query_chip(const Backend& backend) {
  ChipInfo chip;
  if (backend.core().device_get_platform_info == nullptr) return chip;
  const ErrorListener listener;
  const StdoutCapture capture;
  abi::PlatformInfo* info = nullptr;
  if (backend.core().device_get_platform_info(backend.log(), &info) != abi::kSuccess || info == nullptr) return chip;
  if (info->version == 1 && info->body.device_count > 0 && info->body.devices != nullptr) {
    const abi::HardwareDevice& device = info->body.devices[0];
    const abi::HtpDeviceExtension* const extension = device.version == 1 ? device.body.extension : nullptr;
    if (extension != nullptr && extension->type == 0) {
      chip.soc_model = extension->on_chip.soc_model;
      // Anything else is a struct that is not what we think.
      if (extension->on_chip.arch > 0 && extension->on_chip.arch < 1000) {
        chip.arch = static_cast<int>(extension->on_chip.arch);
      }
      if (extension->on_chip.vtcm_mb <= 64) chip.vtcm_mb = static_cast<int>(extension->on_chip.vtcm_mb);
    }
  }
  if (backend.core().device_free_platform_info != nullptr) {
    backend.core().device_free_platform_info(backend.log(), info);
  }
  return chip;
}

Result<std::shared_ptr<const Backend>> Backend::create(std::shared_ptr<const Library> library, const Options& options) {
  if (library == nullptr) return internal_error("a QNN back end needs a loaded library");
  const auto backend = std::shared_ptr<Backend>(new Backend(std::move(library)));
  const ErrorListener listener;
  const StdoutCapture capture;
  backend->log_level_ = options.log_level;
  const abi::LogLevel level = library_log_level(options.log_level);
  if (const auto result = backend->core().log_create(library_log_callback(), level, &backend->log_);
      result != abi::kSuccess) {
    return describe_error(result, "starting QNN's log", listener.said());
  }
  if (const auto result = backend->core().backend_create(backend->log_, nullptr, &backend->handle_);
      result != abi::kSuccess) {
    backend->handle_ = nullptr;
    return describe_error(result, "starting QNN's HTP back end", listener.said());
  }
  if (const abi::Version have = backend->library()->htp_version(); have.minor < kOldestTestedHtp.minor) {
    log_message(LogLevel::kWarning,
                str_format("{} has version {} of QNN's HTP back end, and tandem was tested with {} to {} only",
                           backend->library()->path(), version_text(have), version_text(kOldestTestedHtp),
                           version_text(kNewestTestedHtp)));
  }
  return std::shared_ptr<const Backend>(backend);
}

void Backend::log_more(LogLevel level) const {
  LogLevel before = log_level_;
  while (before < level && !log_level_.compare_exchange_weak(before, level)) {
  }
  // Should the library refuse, it says less: no reason to stop.
  if (before < level && core().log_set_level != nullptr) core().log_set_level(log_, library_log_level(level));
}

Backend::~Backend() {
  if (handle_ != nullptr) core().backend_free(handle_);
  if (log_ != nullptr) core().log_free(log_);
}

Result<std::shared_ptr<const Device>> Device::create(std::shared_ptr<const Backend> backend,
                                                     const DeviceOptions& options) {
  if (backend == nullptr) return internal_error("a QNN device needs a back end");
  TANDEM_TRY(check(options));
  int first_arch = 0;
  if (options.arch != 0 && !process_arch.compare_exchange_strong(first_arch, options.arch) &&
      first_arch != options.arch) {
    return unsupported(
        "this process has worked for V{} and cannot work for V{} as well, because the QNN library would judge ops by "
        "the wrong one; use another process",
        first_arch, options.arch);
  }
  const auto device = std::shared_ptr<Device>(new Device(std::move(backend), options));
  const ErrorListener listener;
  const StdoutCapture capture;
  abi::ErrorHandle result = device->open();
  if (options.signed_pd && is_refusal(result)) {
    device->options_.signed_pd = false;
    result = device->open();
    if (result == abi::kSuccess) warn_about_unsigned_pd();
  }
  if (result != abi::kSuccess) {
    device->handle_ = nullptr;
    return describe_error(result, str_format("creating a device for SoC {} (V{})", options.soc_model, options.arch),
                          listener.said());
  }
  return std::shared_ptr<const Device>(device);
}

abi::ErrorHandle Device::open() {
  const auto payload_offset = device_payload_offset(backend_->library()->htp_version());
  if (options_.signed_pd && !payload_offset) return kCodeNotSupported;
  DeviceConfigs configs(options_, payload_offset);
  return core().device_create(backend_->log(), configs.list.data(), &handle_);
}

void warn_about_unsigned_pd() {
  log_message(LogLevel::kWarning,
              "this device or this version of its library refuses the option `signed-pd`; running in an unsigned "
              "process instead");
}

Device::~Device() {
  if (handle_ != nullptr) core().device_free(handle_);
}

}  // namespace tandem::qnn
