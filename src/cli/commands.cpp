#include "cli/commands.h"

#include <CLI/CLI.hpp>

#include "cli/interrupt.h"

namespace tandem {

void fail(const Error& error) {
  check_output();  // If results cannot be written, that is why everything else failed.
  note_error(error.message);
  throw CLI::RuntimeError(error.code == ErrorCode::kCancelled ? interrupt_exit_code() : 1);
}

void refuse(std::string_view message) {
  note_error(message);
  throw CLI::RuntimeError(2);
}

}  // namespace tandem
