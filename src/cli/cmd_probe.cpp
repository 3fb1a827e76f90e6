// tandem probe: whether a file can run here, and if not, why.
#include <CLI/CLI.hpp>
#include <memory>

#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/flag_names.h"
#include "cli/progress_bar.h"
#include "tandem/probe.h"

namespace tandem {
namespace probe_command {

constexpr int kNotUsable = 3;

struct Options {
  std::string file;
  bool json = false;
  EngineFlags engine;
};

void show_memory(const BackendProbe& probe) {
  const auto bytes = [](uint64_t count) { return count == 0 ? std::string("unknown") : format_bytes(count); };
  if (probe.memory_needed_bytes == 0) return;
  show("  memory   {} needed, {} of it for each session; {} free", format_bytes(probe.memory_needed_bytes),
       format_bytes(probe.session_bytes), bytes(probe.memory_free_bytes));
  if (probe.context_bytes == 0) return;
  show("           {} in the largest context; {} are possible", format_bytes(probe.context_bytes),
       format_bytes(probe.context_limit_bytes));
}

void show_probe(const BackendProbe& probe) {
  show("{}{}: {}", probe.backend, probe.target.empty() ? "" : str_format(" (target {})", probe.target),
       probe.usable ? "usable" : "not usable");
  if (!probe.reason.empty()) show("  reason   {}", probe.reason);
  if (!probe.remedy.empty()) show("  remedy   {}", probe.remedy);
  for (const std::string& warning : probe.warnings) show("  warning  {}", warning);
  if (!probe.device.empty()) show("  device   {}", probe.device);
  if (!probe.library.empty()) show("  library  {}, version {}", probe.library, probe.library_version);
  if (!probe.library_version_needed.empty()) show("  needs    version {} or later", probe.library_version_needed);
  show_memory(probe);
}

void run(const Options& o) {
  EngineOptions options = o.engine.options();
  if (!o.engine.verbose) options.log = {};  // Warnings are part of the report.
  ProbeReport report = value_or_fail(probe(o.file, options));
  for (BackendProbe& probe : report.backends) {
    probe.reason = with_flags(probe.reason);
    probe.remedy = with_flags(probe.remedy);
    for (std::string& warning : probe.warnings) warning = with_flags(warning);
  }
  if (o.json) {
    show_json(value_or_fail(parse_json(report.to_json(), "the report")), 2);
  } else {
    for (const BackendProbe& probe : report.backends) show_probe(probe);
  }
  if (!report.usable) throw CLI::RuntimeError(kNotUsable);
}

}  // namespace probe_command

void add_probe_command(CLI::App& app) {
  using namespace probe_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("probe", "Say whether a file can run here, and if not, why");
  command->footer(
      "Examples:\n  tandem probe demo.tdm\n  tandem probe --json\n"
      "Exit status: 0 it can run, 3 it cannot, 1 the file is absent or broken, 2 the options make no sense.");
  command->add_option("FILE", o->file, "A compiled file; without one: every back end of this build");
  command->add_flag("--json", o->json, "As JSON");
  o->engine.add_to(*command);
  command->callback([o] { run(*o); });
}

}  // namespace tandem
