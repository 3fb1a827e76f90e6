// Which methods a program has, their inputs and outputs, and which one to call next. All of it is read from metadata.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "backends/interface/method_inputs.h"
#include "backends/interface/program.h"
#include "tandem/engine.h"

namespace tandem {

// Rows that a method outputs and the run time writes to their slots of a state.
struct CacheWrite {
  ir::TensorId rows = -1;   // kNewKeys or kNewValues: [heads, tokens, size]
  ir::TensorId cache = -1;  // kKeyCache or kValueCache: [heads, context, size]
  int64_t heads = 0;
  size_t row_bytes = 0;
};

struct MethodEntry {
  size_t index = 0;  // In the program.
  int64_t tokens = 0;
  ir::MethodInputs inputs;
  ir::TensorId logits_output = -1;
  ir::TensorId hidden_output = -1;  // The final norm's output; -1: the method does not give it.
  std::vector<CacheWrite> cache_writes;
  std::vector<ir::TensorId> trace_outputs;  // Hidden states after layers, for measurements.
};

// A cache that keeps the last positions only: position p is in slot p modulo `slots`.
struct RingCache {
  int64_t slots = 0;
  int64_t window = 0;  // How many positions a token sees.
};

class MethodTable {
 public:
  // Refuses a program without `decode`, with inputs that the run time does not know, or whose methods disagree.
  static Result<MethodTable> read(const Program& program, int64_t vocab_size);

  Mode mode() const { return methods_.size() > 1 ? Mode::kHybrid : Mode::kKv; }
  int64_t context() const { return context_; }
  // The method for the next call when `remaining` tokens wait (backends/interface/method_selection.h).
  const MethodEntry& choose(int64_t remaining) const;
  const std::vector<MethodEntry>& methods() const { return methods_; }
  // Sequences of more tokens than this have another rotary table; 0 if there is only one.
  int64_t rope_limit() const { return methods_.front().inputs.rope_limit; }
  // The cache that drops positions first, if any does.
  const std::optional<RingCache>& ring() const { return ring_; }
  // The width of the final norm's output; 0 if not all methods give it.
  int64_t hidden_size() const { return hidden_size_; }

 private:
  std::vector<MethodEntry> methods_;  // Sorted by tokens; the first computes one.
  int64_t context_ = 0;
  int64_t hidden_size_ = 0;
  std::optional<RingCache> ring_;
};

}  // namespace tandem
