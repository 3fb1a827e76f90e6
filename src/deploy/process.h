// Runs another program to its end, without a shell. The compiler half alone starts processes (docs/architecture.md).
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "tandem/status.h"

namespace tandem {

struct ProcessOptions {
  StopCallback stop = {};      // Ends the program, and the call with kCancelled.
  double timeout_seconds = 0;  // 0: none. Longer is an error.
};

struct ProcessResult {
  int exit_code = 0;  // -1 if a signal ended it.
  int signal = 0;
  std::string output;
  std::string errors;  // Both are cut after 16 MB.
};

// Its standard input is empty.
Result<ProcessResult> run_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  const ProcessOptions& options = {});

}  // namespace tandem
