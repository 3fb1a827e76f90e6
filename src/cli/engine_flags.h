// The flags of commands that load a compiled file.
#pragma once

#include "cli/backend_flags.h"
#include "tandem/engine.h"

namespace tandem {

struct EngineFlags {
  int threads = 0;
  BackendFlags backend = {};
  std::string run_on = {};
  std::string decode_on = {};  // Only commands that generate have a flag for it.
  bool verbose = false;

  void add_to(CLI::App& command);
  EngineOptions options() const;
};

}  // namespace tandem
