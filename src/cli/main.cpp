// `tandem`: one subcommand per file cmd_*.cpp.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <new>

#include "base/version.h"
#include "cli/commands.h"
#include "tandem/mapping_guard.h"

int main(int argc, char** argv) {
  CLI::App app{
      "tandem turns a Hugging Face checkpoint into one file that runs in an app's own process.\n"
      "  tandem compile models/demo -o demo.tdm\n"
      "  tandem run demo.tdm -p \"Tell me a story about a fox named Leo.\""};
  app.name("tandem");
  app.set_version_flag("--version", "tandem " + std::string(tandem::kVersion));
  app.require_subcommand(1);
  app.set_help_all_flag("--help-all", "Help of all commands");
  tandem::add_compile_command(app);
  tandem::add_run_command(app);
  tandem::add_chat_command(app);
  tandem::add_inspect_command(app);
  tandem::add_bench_command(app);
  tandem::add_logits_command(app);
  tandem::add_tokenize_command(app);
  tandem::add_template_command(app);
  tandem::add_eval_command(app);
  tandem::add_targets_command(app);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return 0;
  }
  const auto is_named = [&](const CLI::App* command) { return command->get_name() == argv[1]; };
  if (argv[1][0] != '-' && std::ranges::none_of(app.get_subcommands([](CLI::App*) { return true; }), is_named)) {
    std::fprintf(stderr, "error: \"%s\" is not a command (see `tandem --help`)\n", argv[1]);
    return 2;
  }
  try {
    // A file that is truncated under us becomes an error message; without the handler it would be the end. Should the
    // system refuse it, everything else still works.
    const tandem::Status guarded = tandem::guard_file_mappings();
    (void)guarded;
    app.parse(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      std::fputs("error: the output could not be written\n", stderr);
      return 1;
    }
    return 0;
  } catch (const CLI::RuntimeError& error) {
    return error.get_exit_code();  // A command has said what is wrong.
  } catch (const CLI::Success& error) {
    return app.exit(error);  // --help, --version
  } catch (const CLI::ParseError& error) {
    std::fprintf(stderr, "error: %s (see `tandem --help` or `tandem COMMAND --help`)\n", error.what());
    return 2;
  } catch (const std::bad_alloc&) {
    std::fputs("error: out of memory; use a smaller context or model\n", stderr);
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
