// The program `tandem-runner`.
#include "cli/commands.h"
#include "cli/program.h"

namespace tandem {

const ProgramText kProgram = {"tandem-runner",
                              "tandem-runner runs compiled files on a device. The program `tandem` makes them.\n"
                              "  tandem-runner run demo.tdm -p \"Tell me a story about a fox named Leo.\""};

void add_program_commands(CLI::App& app) {
  add_run_command(app);
  add_chat_command(app);
  add_probe_command(app);
  add_bench_command(app);
}

bool is_compile_flag(std::string_view) { return false; }

}  // namespace tandem
