// `tandem`: one subcommand per file cmd_*.cpp.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>
#include <sstream>

#include "base/format.h"
#include "base/program_start.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/validators.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace {

void add_commands(CLI::App& app) {
  add_compile_command(app);
  add_run_command(app);
  add_chat_command(app);
  add_inspect_command(app);
  add_bench_command(app);
  add_logits_command(app);
  add_tokenize_command(app);
  add_template_command(app);
  add_eval_command(app);
  add_deploy_command(app);
  add_targets_command(app);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    // An empty text can be tokenized, and an empty system message means none; the rest have their own message.
    const bool own_prompt = command->get_name() != "eval";
    refuse_empty_values(*command, {"--system", "--stop", own_prompt ? "--prompt" : ""});
  }
}

// Runs the command that the arguments name and returns its exit status; may throw a std::exception.
int run_command(CLI::App& app, int argc, char** argv) {
  try {
    try {
      if (argc <= 1) throw CLI::CallForHelp();
      app.parse(argc, argv);
    } catch (const CLI::Success& help) {  // --help, --version
      std::ostringstream text;
      app.exit(help, text, text);
      write_stdout(text.str());
    }
    check_output();
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // A command has reported what is wrong.
  } catch (const CLI::ParseError& error) {
    note_error(str_format("{} (see `tandem --help` or `tandem COMMAND --help`)", error.what()));
    return 2;
  }
}

int run(int argc, char** argv) {
  CLI::App app{
      "tandem turns a Hugging Face checkpoint into one file that runs in an app's own process.\n"
      "  tandem compile models/demo -o demo.tdm\n"
      "  tandem run demo.tdm -p \"Tell me a story about a fox named Leo.\""};
  app.name("tandem");
  app.set_version_flag("--version", "tandem " + std::string(kVersion));
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  add_commands(app);
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argc > 1 && argv[1][0] != '-' &&
      std::ranges::none_of(app.get_subcommands([](CLI::App*) { return true; }), is_named)) {
    note_error(str_format("\"{}\" is not a command (see `tandem --help`)", argv[1]));
    return 2;
  }
  return run_command(app, argc, argv);
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (!tandem::reserve_standard_descriptors()) return 1;
  const bool dies_of_closed_pipes = tandem::ignore_write_signals();
  int status = 1;
  try {
    // A file that is truncated while in use becomes an error message; without the handler the process would die. If the
    // system refuses it, everything else still works.
    const tandem::Status guarded = tandem::guard_file_mappings();
    (void)guarded;
    status = tandem::run(argc, argv);
  } catch (const std::bad_alloc&) {
    tandem::write_stderr("error: out of memory; use a smaller context or model\n");
  } catch (const std::exception& error) {
    tandem::note_error(error.what());
  }
  if (status != tandem::kReaderGone) return status;
  // The reader of the results is gone (`tandem … | head`): end as other programs do, after the cleanup.
  if (dies_of_closed_pipes) {
    ::signal(SIGPIPE, SIG_DFL);
    ::raise(SIGPIPE);
  }
  tandem::note_error("the output cannot be written (nobody reads it)");
  return 1;
}
