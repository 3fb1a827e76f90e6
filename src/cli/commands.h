// The subcommands of `tandem`: each file cmd_*.cpp adds one to the parser.
#pragma once

#include <string_view>

#include "cli/output.h"
#include "tandem/status.h"

namespace CLI {
class App;
}

namespace tandem {

// Prints one line "error: …" and ends the command with exit status 1 (by throwing CLI::RuntimeError, which main() turns
// into the status); 128 + the signal if a signal stopped it, as shells expect.
[[noreturn]] void fail(const Error& error);
// The same for options that make no sense, alone or together: exit status 2, as for those that the parser refuses.
[[noreturn]] void refuse(std::string_view message);

// The value of a Result, or fail().
template <typename T>
T value_or_fail(Result<T> result) {
  if (!result.ok()) fail(result.error());
  return std::move(result).value();
}
inline void ok_or_fail(const Status& status) {
  if (!status.ok()) fail(status.error());
}

void add_compile_command(CLI::App& app);
void add_deploy_command(CLI::App& app);
void add_run_command(CLI::App& app);
void add_chat_command(CLI::App& app);
void add_inspect_command(CLI::App& app);
void add_probe_command(CLI::App& app);
void add_bench_command(CLI::App& app);
void add_logits_command(CLI::App& app);
void add_tokenize_command(CLI::App& app);
void add_template_command(CLI::App& app);
void add_eval_command(CLI::App& app);
void add_targets_command(CLI::App& app);

}  // namespace tandem
