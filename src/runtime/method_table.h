// Which methods a program has, what they take, and which one to call next. Everything is read from their metadata.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/border.h"
#include "ir/program.h"
#include "tandem/engine.h"

namespace tandem {

struct MethodEntry {
  size_t index = 0;  // In the program.
  int64_t tokens = 0;
  ir::TensorId token_input = -1;
  ir::TensorId position_input = -1;
  ir::TensorId mask_input = -1;
  ir::TensorId logits_output = -1;
  ir::MaskCodes mask_codes;
  int mask_element_bytes = 0;
};

class MethodTable {
 public:
  // Refuses a program without `decode`, with inputs that the run time does not know, or whose methods disagree.
  static Result<MethodTable> read(const Program& program, int64_t vocab_size);

  Mode mode() const { return methods_.size() > 1 ? Mode::kHybrid : Mode::kKv; }
  int64_t context() const { return context_; }
  // The method for the next call when `remaining` tokens wait: the longest that they fill; if they fill none but the
  // one-token method, the shortest that holds them all, padded.
  const MethodEntry& choose(int64_t remaining) const;
  const std::vector<MethodEntry>& methods() const { return methods_; }

 private:
  std::vector<MethodEntry> methods_;  // By tokens; the first takes one.
  int64_t context_ = 0;
};

}  // namespace tandem
