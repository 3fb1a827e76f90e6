// Progress of long work. A library calls the callback; whoever owns the terminal draws.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace tandem {

struct Progress {
  std::string stage;  // "layers.3"
  uint64_t done = 0;  // In units that grow evenly over time.
  uint64_t total = 0;
};

using ProgressCallback = std::function<void(const Progress&)>;
// Polled often; true means stop as soon as possible and leave nothing half-done.
using StopCallback = std::function<bool()>;

}  // namespace tandem
