#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "backends/registry/registry.h"
#include "cli/output.h"
#include "cli/validators.h"

namespace tandem {

void EngineFlags::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads; 0, the default: one per core")
      ->check(whole_number(0, kMaxThreads));
  command.add_option(
      "--on", run_on,
      "Which program of a file for several targets: a target or a back end; default: the first that works");
  backend.add_to(command, all_backend_options());
  command.add_flag("--verbose", verbose, "Print what the library logs besides warnings");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options;
  options.threads = threads;
  options.log = note_log;
  options.log_level = verbose ? LogLevel::kInfo : LogLevel::kWarning;
  options.backend = backend.options();
  options.run_on = run_on;
  options.decode_on = decode_on;
  return options;
}

}  // namespace tandem
