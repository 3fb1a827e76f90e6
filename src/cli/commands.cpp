#include "cli/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace tandem {

void fail(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "error: {}\n", error.message);
  throw CLI::RuntimeError(error.code == ErrorCode::kCancelled ? 130 : 1);
}

void warn(std::string_view message) { fmt::print(stderr, "warning: {}\n", message); }

}  // namespace tandem
