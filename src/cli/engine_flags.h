// The flags of commands that load a compiled file.
#pragma once

#include <string>

#include "tandem/engine.h"

namespace CLI {
class App;
}

namespace tandem {

struct EngineFlags {
  int threads = 0;
  std::string qnn_libs;
  std::string profile = "burst";
  bool signed_pd = false;
  bool verbose = false;

  void add_to(CLI::App& command);
  EngineOptions options() const;
};

}  // namespace tandem
