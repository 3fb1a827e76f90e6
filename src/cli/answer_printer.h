// Shows an answer while it is generated, and a thinking model's reasoning separately.
#pragma once

#include <string_view>

#include "tandem/engine.h"

namespace tandem {

enum class ShowReasoning { kYes, kHide };

// The answer goes to standard output. Reasoning goes there too, dimmed, if that is a terminal; else to standard error,
// so that a pipe gets nothing but the answer. A pipe or a file gets the model's text byte for byte; on a terminal, what
// would steer it (escape sequences, carriage returns) is shown as text.
class AnswerPrinter {
 public:
  explicit AnswerPrinter(ShowReasoning show);

  // Both return false if standard output cannot be written.
  bool answer(std::string_view piece);
  bool reasoning(std::string_view piece);
  // Whether something was printed to standard output.
  bool printed() const { return printed_; }
  // Ends reasoning that is being shown, so that other output can follow.
  void finish();

 private:
  bool show_;
  bool to_terminal_;
  bool in_reasoning_ = false;
  bool printed_ = false;
};

}  // namespace tandem
