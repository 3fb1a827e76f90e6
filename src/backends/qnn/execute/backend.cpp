// The QNN back end in the registry.
#include "backends/interface/backend.h"

#include "artifact/header.h"
#include "backends/qnn/execute/probe.h"
#include "backends/qnn/execute/program.h"
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
     .help = "How fast an NPU is clocked: burst, sustained, balanced, power_saver",
     .default_value = "burst",
     .check = check_profile},
    {.name = "signed-pd",
     .kind = OptionKind::kFlag,
     .help = "Run in a signed process on the NPU's DSP",
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
    TANDEM_ASSIGN(QnnOptions parsed, parse_qnn_options(options));
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
    return str_format("SoC {}, Hexagon V{}, QNN {} ({}), {}", device.soc_model, device.arch, device.core_version,
                      device.build_id, device.weight_shared ? "one set of weights" : "weights not shared");
  }
};

}  // namespace

Result<QnnOptions> parse_qnn_options(const BackendOptions& options) {
  TANDEM_ASSIGN(const OptionValues values, OptionValues::read(kOptions, options));
  QnnOptions parsed;
  parsed.libraries = values.text("qnn-libs");
  TANDEM_ASSIGN(parsed.profile, parse_performance_profile(values.text("profile")));
  parsed.signed_pd = values.flag("signed-pd");
  parsed.shared_buffers = values.flag("shared-buffers");
  parsed.rpc_polling_us = static_cast<uint32_t>(values.count("rpc-polling-us"));
  return parsed;
}

const tandem::Backend& backend() {
  static const QnnBackend instance;
  return instance;
}

}  // namespace tandem::qnn
