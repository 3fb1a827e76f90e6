// The QNN back end in the registry.
#include "backends/interface/backend.h"

#include "artifact/header.h"
#include "backends/qnn/execute/probe.h"
#include "backends/qnn/execute/program.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

Status check_profile(std::string_view name) {
  auto profile = parse_performance_profile(name);
  return profile.ok() ? ok_status() : Status(std::move(profile).error());
}

constexpr OptionSpec kOptions[] = {
    {.name = "qnn-libs",
     .help = "Folder of Qualcomm's libQnnHtp.so; default: TANDEM_QNN_LIBS, build/qnn, the Python package",
     .is_about_machine = true},
    {.name = "profile",
     .help = "How fast an NPU is clocked: burst, sustained, balanced, power_saver; default: the file's, or burst",
     .check = check_profile},
    {.name = "signed-pd",
     .kind = OptionKind::kFlag,
     .help = "Run in a signed process on the NPU's DSP; default: as the file says",
     .default_value = "false"},
    {.name = "shared-buffers",
     .kind = OptionKind::kFlag,
     .help = "Memory that the NPU sees without copies, where the platform has it",
     .default_value = "true",
     .has_flag = false},
    {.name = "rpc-polling-us",
     .kind = OptionKind::kCount,
     .help = "How long the CPU spins for an answer before it sleeps; 0: it does not",
     .default_value = "9999",
     .most = kMaxRpcPollingUs,
     .has_flag = false},
};
static_assert(kMaxRpcPollingUs == 9999);

// This namespace has a Backend of its own, Qualcomm's.
class QnnBackend final : public tandem::Backend {
 public:
  std::string_view name() const override { return "qnn"; }
  std::span<const OptionSpec> options() const override { return kOptions; }

  Result<std::unique_ptr<Program>> load(const Artifact& artifact, ThreadPool& pool, const BackendOptions& options,
                                        const Log& log) const override {
    TANDEM_ASSIGN(QnnOptions parsed, parse_qnn_options(options, artifact.header().device));
    parsed.log = log;
    return load_program(artifact, pool, parsed);
  }

  Result<BackendProbe> probe(const Artifact* artifact, const BackendOptions& options, const Log& log) const override {
    TANDEM_ASSIGN(QnnOptions parsed, parse_qnn_options(options));
    parsed.log = log;
    return probe_npu(artifact, parsed);
  }

  // Its speed depends on the chip's clocks, which only the chip knows.
  Result<Processor> processor() const override { return Processor{"QNN", nullptr}; }

  std::string describe_device(const DeviceInfo& device) const override {
    std::string text =
        str_format("SoC {}, Hexagon V{}, {} MB of VTCM, {}; needs QNN {} ({}) or later", device.soc_model, device.arch,
                   device.vtcm_mb, device.weight_shared ? "one set of weights" : "weights not shared",
                   device.core_version, device.build_id);
    if (device.optimization_level > 0) text += str_format("; optimization level {}", device.optimization_level);
    if (device.hvx_threads > 0) text += str_format(", {} HVX threads", device.hvx_threads);
    if (device.signed_pd) text += ", signed process";
    if (!device.profile.empty()) text += str_format(", profile {}", device.profile);
    return text;
  }
};

}  // namespace

Result<QnnOptions> parse_qnn_options(const BackendOptions& options, const DeviceInfo& compiled) {
  TANDEM_ASSIGN(const OptionValues values, OptionValues::read(kOptions, options));
  QnnOptions parsed;
  parsed.libraries = values.text("qnn-libs");
  const bool from_file = !values.has("profile") && !compiled.profile.empty();
  const std::string usual = compiled.profile.empty() ? "burst" : compiled.profile;
  auto profile = parse_performance_profile(values.has("profile") ? values.text("profile") : usual);
  if (!profile.ok() && from_file) {
    return corrupt(
        "the file names the performance profile \"{}\", which is none; choose `profile`, or compile it again",
        compiled.profile);
  }
  TANDEM_ASSIGN(parsed.profile, std::move(profile));
  parsed.signed_pd = values.has("signed-pd") ? values.flag("signed-pd") : compiled.signed_pd;
  parsed.shared_buffers = values.flag("shared-buffers");
  parsed.rpc_polling_us = static_cast<uint32_t>(values.count("rpc-polling-us"));
  return parsed;
}

const tandem::Backend& backend() {
  static const QnnBackend instance;
  return instance;
}

}  // namespace tandem::qnn
