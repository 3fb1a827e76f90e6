#include "backends/qnn/execute/probe.h"

#include <algorithm>
#include <mutex>

#include "backends/interface/probe.h"
#include "backends/qnn/api/log.h"
#include "backends/qnn/api/rpcmem.h"
#include "backends/qnn/execute/loaded_shards.h"
#include "backends/qnn/execute/preflight.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

constexpr std::string_view kReport = "see the log, and report it with the output of `tandem probe`";

// Every check sets a reason or leaves the probe usable. Only damage is an error.
class Prober {
 public:
  Prober(const Artifact* artifact, const QnnOptions& options, const Platform& platform)
      : header_(artifact == nullptr ? nullptr : &artifact->header()), options_(options), platform_(platform) {}

  Result<BackendProbe> run() {
    probe_.usable = true;
    const OpenLog log(collecting());
    {
      const LogScope scope(log.log());
      TANDEM_TRY(check_header_alone());
      if (probe_.usable) check_dsp_library();
      if (probe_.usable) TANDEM_TRY(check_library());
      if (probe_.usable && !platform_.emulator) TANDEM_TRY(check_device());
    }
    const std::lock_guard lock(warnings_mutex_);
    probe_.warnings.insert(probe_.warnings.end(), warnings_.begin(), warnings_.end());
    return probe_;
  }

 private:
  // To the caller's log and, what is worth knowing, into the answer. The target is checked twice, here and by
  // process_device(), and reported once.
  Log collecting() {
    const auto collect = [this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) {
        const std::lock_guard lock(warnings_mutex_);
        if (std::ranges::find(warnings_, message) != warnings_.end()) return;
        warnings_.emplace_back(message);
      }
      options_.log.write(level, message);
    };
    return Log(collect, std::max(options_.log.finest(), LogLevel::kWarning));
  }

  Status refuse(const Status& status, std::string_view remedy) {
    if (status.ok()) return status;
    if (status.error().code == ErrorCode::kCorrupt) return status;
    set_obstacle(probe_, status.error(), remedy);
    return ok_status();
  }

  Status check_header_alone() {
    probe_.context_limit_bytes = kContextLimit;
    if (platform_.emulator) probe_.device = "Qualcomm's emulator on x86";
    if (header_ == nullptr) return ok_status();
    const DeviceInfo& compiled = header_->device;
    if (header_->shards.empty()) {
      return corrupt("the file is for the back end \"{}\" and has no compiled shards; compile it again",
                     header_->backend);
    }
    probe_.library_version_needed = compiled.core_version;
    if (platform_.emulator) probe_.device += str_format(", as SoC {} (V{})", compiled.soc_model, compiled.arch);
    uint64_t total = 0;
    for (const Shard& shard : header_->shards) {
      probe_.context_bytes = std::max(probe_.context_bytes, context_bytes(*header_, shard));
      total += std::min(shard.binary.size, UINT64_MAX - total);
    }
    set_memory(probe_, total, session_bytes(header_->methods), platform_.available_memory);
    if (total > kContextLimit && !platform_.emulator) {
      probe_.warnings.push_back(str_format(
          "all contexts together take {} MB, more than the {} MB that a process of the NPU addresses: the library has "
          "to spread them over several, which not every device allows",
          total >> 20, kContextLimit >> 20));
    }
    if (platform_.emulator) TANDEM_TRY(refuse(check_target(compiled, platform_, {}), kReport));
    if (probe_.usable) TANDEM_TRY(refuse(check_contexts(*header_), kReport));
    if (probe_.usable) TANDEM_TRY(refuse(check_memory(*header_, platform_), kReport));
    return ok_status();
  }

  // Without it, nothing in this process can reach the DSP.
  void check_dsp_library() {
    if (platform_.emulator || platform_.rpc_library.empty()) return;
    const auto heap = SharedHeap::open(platform_.rpc_library);
    if (heap.ok() || heap.error().code != ErrorCode::kNotFound) return;
    set_obstacle(
        probe_,
        unsupported("{}, the system's way to the DSP, could not be loaded, so this process cannot use the NPU; "
                    "on Android, add <uses-native-library android:name=\"{}\" android:required=\"false\"/> to "
                    "the app's manifest; elsewhere, this system has no Snapdragon NPU or lacks its driver",
                    platform_.rpc_library, platform_.rpc_library),
        {});
    // The remedy has two halves.
    const size_t split = probe_.reason.find("; ");
    if (split == std::string::npos) return;
    probe_.remedy = probe_.reason.substr(split + 2) + "; " + probe_.remedy;
    probe_.reason.resize(split);
  }

  Status check_library() {
    SearchOptions search;
    search.path = options_.libraries;
    auto library = Library::load(search);
    if (!library.ok()) {
      set_obstacle(probe_, library.error(), kHowToGet);
      return ok_status();
    }
    library_ = *library;
    probe_.library = library_->path();
    probe_.library_version = version_text(library_->core_version());
    if (header_ == nullptr) return ok_status();
    return refuse(check_versions(header_->device, library_->core_version(), library_->htp_version(), library_->path()),
                  kReport);
  }

  Status check_device() {
    auto backend = Backend::create(library_, {.log_level = options_.log.finest()});
    if (!backend.ok()) return refuse(backend.status(), kReport);
    const ChipInfo chip = query_chip(**backend);
    probe_.device = chip.arch == 0
                        ? "a chip that does not identify itself"
                        : str_format("SoC {}, Hexagon V{}, {} MB of VTCM", chip.soc_model, chip.arch, chip.vtcm_mb);
    DeviceInfo compiled = header_ == nullptr ? DeviceInfo() : header_->device;
    if (header_ != nullptr) TANDEM_TRY(refuse(check_target(compiled, platform_, chip), kReport));
    if (!probe_.usable) return ok_status();
    if (header_ == nullptr) {
      if (chip.arch == 0) return ok_status();
      compiled.soc_model = std::max(chip.soc_model, 1u);
      compiled.arch = chip.arch;
      compiled.vtcm_mb = chip.vtcm_mb;
    }
    const auto device = process_device(library_, compiled, platform_, options_);
    if (device.ok()) return ok_status();
    set_obstacle(probe_, device.error(), options_.signed_pd ? "run without `signed-pd`" : kReport);
    if (options_.signed_pd) {
      probe_.reason += ", with a signed process";
      probe_.remedy = "run without `signed-pd`; phones of end users rarely allow it";
    }
    return ok_status();
  }

  const ArtifactHeader* header_;
  const QnnOptions& options_;
  const Platform& platform_;
  BackendProbe probe_;
  std::mutex warnings_mutex_;  // The library logs from threads of its own.
  std::vector<std::string> warnings_;
  std::shared_ptr<const Library> library_;
};

}  // namespace

Result<BackendProbe> probe_npu(const Artifact* artifact, const QnnOptions& options, const Platform& platform) {
  return Prober(artifact, options, platform).run();
}

}  // namespace tandem::qnn
