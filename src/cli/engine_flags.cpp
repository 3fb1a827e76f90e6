#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "backends/qnn/api/power.h"
#include "cli/commands.h"
#include "cli/validators.h"

namespace tandem {

void EngineFlags::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads; 0, the default: one per core")
      ->check(whole_number(0, kMaxThreads));
  command.add_option("--qnn-libs", qnn_libs,
                     "Folder of Qualcomm's libQnnHtp.so; default: TANDEM_QNN_LIBS, build/qnn, the Python package");
  command.add_option("--profile", profile, "How fast an NPU is clocked: burst, sustained, balanced, power_saver")
      ->check(accepted_by(qnn::parse_performance_profile))
      ->capture_default_str();
  command.add_flag("--signed-pd", signed_pd, "Run in a signed process on the NPU's DSP");
  command.add_flag("--verbose", verbose, "Print what the library logs besides warnings");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options;
  options.threads = threads;
  options.npu.libraries = qnn_libs;
  options.npu.profile = static_cast<NpuProfile>(value_or_fail(qnn::parse_performance_profile(profile)));
  options.npu.signed_pd = signed_pd;
  options.log = note_log;
  options.log_level = verbose ? LogLevel::kInfo : LogLevel::kWarning;
  return options;
}

}  // namespace tandem
