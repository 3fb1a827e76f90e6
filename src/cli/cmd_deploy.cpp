// tandem deploy: a compiled file and all that it needs, into a folder or onto a phone.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>

#include "base/format.h"
#include "base/json.h"
#include "cli/backend_flags.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"
#include "compiler/backend_compiler.h"
#include "deploy/deploy_adb.h"
#include "deploy/deploy_folder.h"

namespace tandem {
namespace deploy_command {

struct Options {
  DeployOptions deploy;
  AdbOptions adb;
  BackendFlags packages;
  std::string to;
  std::string prompt;
  int64_t max_tokens = 0;
  bool has_prompt = false;
  bool greedy = false;
  bool bench = false;
  bool json = false;
  bool quiet = false;
};

constexpr std::string_view kAdb = "adb";
constexpr std::string_view kAdbSerial = "adb:";

bool is_adb(const Options& o) { return o.to == kAdb || o.to.starts_with(kAdbSerial); }

void check(const Options& o) {
  if (o.to == kAdbSerial) refuse("--to adb: lacks the serial number (adb:SERIAL); `adb devices` lists them");
  if (!is_adb(o)) {
    if (o.has_prompt || o.bench) refuse("--prompt and --bench run the file on a device, so they need --to adb");
    if (!o.adb.program.empty()) refuse("--adb has no effect without --to adb");
  }
  if (o.has_prompt && o.prompt.empty()) refuse("the prompt is empty; give some text with --prompt");
  if (!o.has_prompt && (o.greedy || o.max_tokens > 0)) refuse("--greedy and --max-tokens need --prompt");
  if (o.deploy.dry_run && (o.has_prompt || o.bench)) refuse("--dry-run runs nothing; leave out --prompt and --bench");
}

// What ran on the device.
struct Results {
  std::string serial;
  Json run;
  Json bench;
};

void report_json(const Options& o, const DeployReport& report, const Results& results) {
  Json json = report.manifest.to_json();
  json["warnings"] = report.warnings;
  json["dry_run"] = o.deploy.dry_run;
  json["written"] = report.written;
  json["unchanged"] = report.unchanged;
  json["removed"] = report.removed;
  if (is_adb(o)) json["device"] = results.serial;
  if (!results.run.is_null()) json["run"] = results.run;
  if (!results.bench.is_null()) json["bench"] = results.bench;
  show_json(json, 2);
}

void list_files(const DeployReport& report, const char* what, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = report.manifest.find(name);
    show("  {:<12} {:<24} {}", what, name, found.empty() ? "" : format_bytes(found.front()->size));
  }
}

void report_text(const Options& o, const DeployReport& report, const Results& results) {
  const Manifest& m = report.manifest;
  show("{} for {} to {}", m.model, m.target, is_adb(o) ? results.serial + ":" + m.folder : o.to);
  list_files(report, o.deploy.dry_run ? "would write" : "written", report.written);
  list_files(report, "unchanged", report.unchanged);
  list_files(report, o.deploy.dry_run ? "would remove" : "removed", report.removed);
  if (!m.library_found.empty()) show("library {}; the file needs {} or later", m.library_found, m.library_needed);
  if (!m.command.empty()) show("on the device: {}", m.command);
  if (results.run.is_object()) {
    check_output();
    show_data(results.run.value("text", std::string()) + "\n");
  }
}

// A few of the figures; --json has all.
void report_figures(const Results& results) {
  const auto number = [](const Json& json, const char* key) {
    const auto found = json.find(key);
    return found != json.end() && found->is_number() ? found->get<double>() : 0.0;
  };
  if (results.run.is_object()) {
    const auto tokens = results.run.find("tokens");
    const size_t count = tokens != results.run.end() && tokens->is_array() ? tokens->size() : 0;
    note("[{:.0f} tokens of the prompt, first token after {:.3f} s, {} new tokens in {:.3f} s]",
         number(results.run, "prompt_tokens"), number(results.run, "first_token_seconds"), count,
         number(results.run, "decode_seconds"));
  }
  if (results.bench.is_object()) {
    note("[bench: first token after {:.3f} s, prompt {:.1f} tokens/s, decode {:.1f} tokens/s]",
         number(results.bench, "first_token_seconds"), number(results.bench, "prompt_tokens_per_second"),
         number(results.bench, "decode_tokens_per_second"));
  }
}

std::vector<std::string> run_arguments(const Options& o, const DeployPlan& plan) {
  // One word, so that a prompt that begins with a dash is no option.
  std::vector<std::string> arguments = {"run", "./" + plan.manifest.model, "--json", "--prompt=" + o.prompt};
  if (o.max_tokens > 0) arguments.push_back(str_format("--max-tokens={}", o.max_tokens));
  if (o.greedy) arguments.emplace_back("--greedy");
  return arguments;
}

// As `tandem bench` does by itself, or less where the context is short.
std::vector<std::string> bench_arguments(const DeployPlan& plan) {
  const int64_t prompt = std::clamp<int64_t>(plan.context / 2, 1, 256),
                tokens = std::clamp<int64_t>(plan.context / 4, 1, 64);
  return {"bench", "./" + plan.manifest.model, "--json", str_format("--prompt={}", prompt),
          str_format("--tokens={}", tokens)};
}

// The value, or the end of the command below the bar.
template <typename T>
T finish(ProgressBar& bar, Result<T> result) {
  bar.finish();
  return value_or_fail(std::move(result));
}

DeployReport deploy_by_adb(const Options& o, const DeployPlan& plan, ProgressBar& bar, Results& results) {
  if (plan.program.empty() && (o.has_prompt || o.bench)) {
    refuse("--prompt and --bench need a program that runs on the device; give a tandem-runner for it with --runtime");
  }
  const Adb adb = finish(bar, Adb::connect(o.adb));
  results.serial = adb.serial();
  DeployReport report = finish(bar, deploy_to_device(plan, adb, o.deploy));
  if (o.has_prompt) {
    bar.update({"running the prompt", 0, 1});
    results.run = finish(bar, run_on_device(plan, adb, run_arguments(o, plan)));
  }
  if (o.bench) {
    bar.update({"measuring", 0, 1});
    results.bench = finish(bar, run_on_device(plan, adb, bench_arguments(plan)));
  }
  return report;
}

void run(Options& o) {
  check(o);
  watch_interrupts();
  ProgressBar bar(o.quiet || o.json);
  o.deploy.packages = o.packages.options();
  o.deploy.progress = [&](const Progress& progress) { bar.update(progress); };
  o.deploy.stop = o.adb.stop = [] { return interrupted(); };
  if (o.to.starts_with(kAdbSerial)) o.adb.serial = o.to.substr(kAdbSerial.size());
  ok_or_fail(check_remote_folder(o.deploy.remote_folder));
  const DeployPlan plan = finish(bar, plan_deployment(o.deploy));
  Results results;
  const DeployReport report =
      is_adb(o) ? deploy_by_adb(o, plan, bar, results) : finish(bar, deploy_to_folder(plan, o.to, o.deploy));
  bar.finish();
  for (const std::string& warning : report.warnings) warn(warning);
  if (o.json) {
    report_json(o, report, results);
    return;
  }
  if (!o.quiet) report_text(o, report, results);
  if (!o.quiet) report_figures(results);
}

void add_adb_options(CLI::App& command, Options& o) {
  const std::string group = "Devices (--to adb)";
  command.add_option("--adb", o.adb.program, "The program adb; default: in PATH, or in ANDROID_HOME")->group(group);
  command.add_option("--prompt", o.prompt, "Answer this there, and bring the answer and its times back")->group(group);
  command.add_option("-n,--max-tokens", o.max_tokens, "At most so many new tokens")
      ->check(whole_number(1))
      ->group(group);
  command.add_flag("--greedy", o.greedy, "Always the most likely token")->group(group);
  command.add_flag("--bench", o.bench, "Measure there how fast the file runs")->group(group);
}

}  // namespace deploy_command

void add_deploy_command(CLI::App& app) {
  using namespace deploy_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("deploy", "Collect what a device needs to run a file, or copy it there");
  command->footer(
      "Examples:\n  tandem deploy demo.tdm --to out\n"
      "  tandem deploy qwen.tdm --to adb --qnn-libs qnn-runtime-2.51.0.aar --prompt \"Hello\" --json\n"
      "A folder's files, and a device's, are replaced only where an earlier deployment wrote them (manifest.json).\n"
      "Stopped with Ctrl-C, SIGTERM or SIGHUP, it leaves no half file; the same command goes on where it was.\n"
      "Exit status: 0 all is there, 1 it is not, 2 the options make no sense, 130, 143 or 129 stopped.");
  command->add_option("FILE", o->deploy.file, "A compiled file")->required();
  command->add_option("--to", o->to, "A folder, or adb, or adb:SERIAL for one of several devices")->required();
  command->add_option("--runtime", o->deploy.runtime,
                      "What runs it there: a tandem or a libtandem.so for 64-bit ARM; default: that of "
                      "build/android-arm64, if there is one");
  for (const BackendCompiler* compiler : backend_compilers()) o->packages.add_to(*command, compiler->deploy_options());
  command->add_option("--remote-dir", o->deploy.remote_folder, "The folder on the device")->capture_default_str();
  add_adb_options(*command, *o);
  command->add_flag("--dry-run", o->deploy.dry_run, "Write nothing, and list what would be done");
  command->add_flag("--json", o->json, "The manifest as JSON, with what was done");
  command->add_flag("-q,--quiet", o->quiet, "Print warnings and errors only");
  command->callback([o, command] {
    o->has_prompt = command->count("--prompt") > 0;
    run(*o);
  });
}

}  // namespace tandem
