// What differs between the programs that are made of these sources: `tandem` has all subcommands, and `tandem-runner`
// those that a device needs, without the compiler.
#pragma once

#include <string_view>

namespace CLI {
class App;
}

namespace tandem {

struct ProgramText {
  std::string_view name;
  std::string_view help;
};
extern const ProgramText kProgram;

void add_program_commands(CLI::App& app);
// Whether a back end's compiler has such an option, as a flag.
bool is_compile_flag(std::string_view name);

}  // namespace tandem
