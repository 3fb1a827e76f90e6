#include "cli/answer_printer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace tandem {
namespace {

constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPlain = "\x1b[0m";

bool write(std::string_view text, std::FILE* file) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

}  // namespace

AnswerPrinter::AnswerPrinter(ShowReasoning show)
    : show_(show == ShowReasoning::kYes), to_terminal_(isatty(STDOUT_FILENO) == 1) {}

bool AnswerPrinter::answer(std::string_view piece) {
  finish();
  printed_ = true;
  return write(piece, stdout);
}

bool AnswerPrinter::reasoning(std::string_view piece) {
  if (!show_) return true;
  if (!in_reasoning_) fmt::print(to_terminal_ ? stdout : stderr, "{}", to_terminal_ ? kDim : "[reasoning]\n");
  in_reasoning_ = true;
  printed_ |= to_terminal_;
  return write(piece, to_terminal_ ? stdout : stderr);
}

void AnswerPrinter::finish() {
  if (!in_reasoning_) return;
  in_reasoning_ = false;
  if (to_terminal_) {
    fmt::print(stdout, "{}\n\n", kPlain);
  } else {
    fmt::print(stderr, "\n[answer]\n");
  }
}

}  // namespace tandem
