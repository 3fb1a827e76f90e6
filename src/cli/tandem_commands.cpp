// The program `tandem`.
#include "backends/interface/options.h"
#include "cli/commands.h"
#include "cli/program.h"
#include "compiler/backend_compiler.h"

namespace tandem {

const ProgramText kProgram = {
    "tandem",
    "tandem turns a Hugging Face checkpoint into one file that runs in an app's own process.\n"
    "  tandem compile models/demo -o demo.tdm\n"
    "  tandem run demo.tdm -p \"Tell me a story about a fox named Leo.\""};

void add_program_commands(CLI::App& app) {
  add_compile_command(app);
  add_run_command(app);
  add_chat_command(app);
  add_inspect_command(app);
  add_probe_command(app);
  add_bench_command(app);
  add_logits_command(app);
  add_tokenize_command(app);
  add_template_command(app);
  add_eval_command(app);
  add_deploy_command(app);
  add_targets_command(app);
}

bool is_compile_flag(std::string_view name) {
  for (const BackendCompiler* compiler : backend_compilers()) {
    const OptionSpec* spec = find_option(compiler->options(), name);
    if (spec != nullptr && spec->has_flag) return true;
  }
  return false;
}

}  // namespace tandem
