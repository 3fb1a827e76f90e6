#include "backends/qnn/execute/preflight.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <tuple>

#include "backends/interface/probe.h"
#include "backends/qnn/api/log.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

constexpr uint64_t kTooMuch = std::numeric_limits<uint64_t>::max();

uint64_t saturating_add(uint64_t a, uint64_t b) { return checked_add(a, b).value_or(kTooMuch); }

// "2.40.0"
Result<abi::Version> parse_version(const std::string& text) {
  uint32_t parts[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    if (i > 0 && (at == end || *at++ != '.')) at = end;
    const auto parsed = std::from_chars(at, end, parts[i]);
    if (parsed.ec != std::errc()) {
      return corrupt("the file says that it was compiled with QNN \"{}\", which is no version; compile it again", text);
    }
    at = parsed.ptr;
  }
  if (at != end) return corrupt("the file names the QNN version \"{}\", which is none; compile it again", text);
  return abi::Version{parts[0], parts[1], parts[2]};
}

Status check_version(const std::string& compiled, const abi::Version& have, std::string_view what,
                     const std::string& library, const std::string& build) {
  TANDEM_ASSIGN(const abi::Version want, parse_version(compiled));
  const bool newer_or_same =
      std::tie(have.major, have.minor, have.patch) >= std::tie(want.major, want.minor, want.patch);
  if (have.major == want.major && newer_or_same) return ok_status();
  return unsupported(
      "the file was compiled with version {} of QNN's {}, and {} has {}; install the QNN libraries that compiled it{} "
      "or "
      "later ones, or compile the model again with these",
      compiled, what, library, version_text(have), build.empty() ? "" : str_format(" ({})", build));
}

uint64_t mebibytes(uint64_t bytes) { return bytes / (1024 * 1024) + (bytes % (1024 * 1024) != 0 ? 1 : 0); }

}  // namespace

Status check_versions(const DeviceInfo& compiled, const abi::Version& core, const abi::Version& htp,
                      const std::string& library) {
  TANDEM_TRY(check_version(compiled.core_version, core, "core interface", library, compiled.build_id));
  return check_version(compiled.backend_version, htp, "HTP back end", library, compiled.build_id);
}

Status check_target(const DeviceInfo& compiled, const Platform& platform, const ChipInfo& chip) {
  if (compiled.arch <= 0 || compiled.arch >= 1000 || compiled.soc_model == 0) {
    return corrupt("the file does not say which chip it was compiled for; compile it again");
  }
  if (platform.emulator) {
    // It takes any architecture; but a shared binary crashes it.
    if (compiled.weight_shared) {
      return unsupported(
          "the file's methods share their weights, and Qualcomm's emulator on x86 cannot load such binaries; run it on "
          "a device, or compile it with `emulator`");
    }
    return ok_status();
  }
  if (chip.arch != 0 && chip.arch != compiled.arch) {
    return unsupported(
        "the file was compiled for Hexagon V{} and this device has V{}; compile the model for this device's target "
        "(`tandem targets` lists them)",
        compiled.arch, chip.arch);
  }
  if (chip.vtcm_mb != 0 && compiled.vtcm_mb > chip.vtcm_mb) {
    return unsupported("the file was compiled for {} MB of VTCM and this device has {}; compile it for this device",
                       compiled.vtcm_mb, chip.vtcm_mb);
  }
  if (chip.soc_model != 0 && chip.soc_model != compiled.soc_model) {
    log_message(LogLevel::kWarning,
                str_format("the file was compiled for SoC number {} and this is {}, of the same architecture: it may "
                           "be slower than one compiled for this device",
                           compiled.soc_model, chip.soc_model));
  }
  return ok_status();
}

uint64_t context_bytes(const ArtifactHeader& header, const Shard& shard) {
  return saturating_add(shard.binary.size, header.device.spill_fill_bytes);
}

uint64_t memory_needed(const ArtifactHeader& header) {
  uint64_t bytes = 0;
  for (const Shard& shard : header.shards) bytes = saturating_add(bytes, shard.binary.size);
  return saturating_add(bytes, session_bytes(header.methods));
}

// The addresses of a context on the DSP have 32 bits; its scratch memory is among them.
Status check_contexts(const ArtifactHeader& header) {
  for (const Shard& shard : header.shards) {
    const uint64_t bytes = context_bytes(header, shard);
    if (bytes <= kContextLimit) continue;
    return unsupported(
        "shard \"{}\" and its scratch memory take {} MB, and the NPU addresses {} MB in one context; compile the model "
        "with more `shards`",
        shard.name, mebibytes(bytes), kContextLimit >> 20);
  }
  return ok_status();
}

Status check_memory(const ArtifactHeader& header, const Platform& platform) {
  const uint64_t needed = memory_needed(header);
  if (needed <= platform.available_memory) return ok_status();
  return resource_exhausted(
      "the model needs {} MB and {} MB are free; close other programs, or compile it with a shorter `context` or a "
      "smaller model",
      mebibytes(needed), platform.available_memory / (1024 * 1024));
}

}  // namespace tandem::qnn
