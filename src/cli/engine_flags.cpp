#include "cli/engine_flags.h"

#include <CLI/CLI.hpp>

#include "backends/registry/registry.h"
#include "cli/output.h"
#include "cli/validators.h"

namespace tandem {

void EngineFlags::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads; 0, the default: one per core")
      ->check(whole_number(0, kMaxThreads));
  backend.add_to(command, all_backend_options());
  command.add_flag("--verbose", verbose, "Print what the library logs besides warnings");
}

EngineOptions EngineFlags::options() const {
  EngineOptions options;
  options.threads = threads;
  options.log = note_log;
  options.log_level = verbose ? LogLevel::kInfo : LogLevel::kWarning;
  options.backend = backend.options();
  return options;
}

}  // namespace tandem
