#include "cli/answer_printer.h"

#include <unistd.h>

#include "base/printable.h"
#include "cli/output.h"

namespace tandem {
namespace {

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

bool stderr_is_terminal() {
  static const bool terminal = isatty(STDERR_FILENO) == 1;
  return terminal;
}

}  // namespace

AnswerPrinter::AnswerPrinter(ShowReasoning show)
    : show_(show == ShowReasoning::kYes), to_terminal_(stdout_is_terminal()) {}

bool AnswerPrinter::answer(std::string_view piece) {
  finish();
  printed_ = true;
  return show_data(piece) && flush_stdout();
}

bool AnswerPrinter::reasoning(std::string_view piece) {
  if (!show_) return true;
  const bool begins = !in_reasoning_;
  in_reasoning_ = true;
  if (to_terminal_) {
    printed_ = true;
    return (!begins || write_stdout(kDim)) && show_data(piece) && flush_stdout();
  }
  if (begins) write_stderr("[reasoning]\n");
  write_stderr(stderr_is_terminal() ? printable_lines(piece) : std::string(piece));
  return true;
}

void AnswerPrinter::finish() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  if (to_terminal_) {
    write_stdout(kPlain);
    write_stdout("\n\n");
  } else {
    write_stderr("\n[answer]\n");
  }
}

}  // namespace tandem
