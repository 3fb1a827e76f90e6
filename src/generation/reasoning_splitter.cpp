#include "generation/reasoning_splitter.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string_view without_leading(std::string_view text, std::string_view chars) {
  text.remove_prefix(std::min(text.find_first_not_of(chars), text.size()));
  return text;
}

std::string_view without_trailing(std::string_view text, std::string_view chars) {
  return text.substr(0, text.find_last_not_of(chars) + 1);
}

// How much of the end of the text could be the start of the tag.
size_t partial_tag(std::string_view text, std::string_view tag) {
  for (size_t size = std::min(text.size(), tag.size() - 1); size > 0; --size) {
    if (text.ends_with(tag.substr(0, size))) return size;
  }
  return 0;
}

}  // namespace

ReasoningSplitter ReasoningSplitter::after_prompt(std::string_view prompt) {
  ReasoningSplitter splitter;
  splitter.state_ = without_trailing(prompt, kSpaces).ends_with(kThinkBegin) ? State::kReasoning : State::kBegin;
  return splitter;
}

ReasoningSplitter::Pieces ReasoningSplitter::push(std::string_view text) {
  Pieces pieces;
  if (state_ == State::kAnswer) {
    pieces.answer = text;
    return pieces;
  }
  held_ += text;
  if (state_ == State::kBegin) read_begin(pieces);
  if (state_ == State::kReasoning) read_reasoning(pieces);
  if (state_ == State::kBeforeAnswer) {
    const std::string_view rest = without_leading(held_, "\n");
    if (!rest.empty()) {
      pieces.answer += rest;
      state_ = State::kAnswer;
    }
    held_.clear();
  }
  return pieces;
}

void ReasoningSplitter::read_begin(Pieces& pieces) {
  const std::string_view text = without_leading(held_, kSpaces);
  if (text.starts_with(kThinkBegin)) {
    held_ = std::string(text.substr(kThinkBegin.size()));
    state_ = State::kReasoning;
  } else if (!kThinkBegin.starts_with(text)) {
    pieces.answer = std::exchange(held_, {});
    state_ = State::kAnswer;
  }
}

void ReasoningSplitter::read_reasoning(Pieces& pieces) {
  if (!reasoning_begun_) held_ = std::string(without_leading(held_, "\n"));
  reasoning_begun_ |= !held_.empty();
  const size_t end = held_.find(kThinkEnd);
  if (end != std::string::npos) {
    pieces.reasoning = without_trailing(std::string_view(held_).substr(0, end), "\n");
    held_.erase(0, end + kThinkEnd.size());
    state_ = State::kBeforeAnswer;
    return;
  }
  const std::string_view certain = std::string_view(held_).substr(0, held_.size() - partial_tag(held_, kThinkEnd));
  pieces.reasoning = without_trailing(certain, "\n");
  held_.erase(0, pieces.reasoning.size());
}

ReasoningSplitter::Pieces ReasoningSplitter::flush() {
  Pieces pieces;
  if (state_ == State::kBegin) pieces.answer = std::exchange(held_, {});
  if (state_ == State::kReasoning) pieces.reasoning = without_trailing(std::exchange(held_, {}), "\n");
  return pieces;
}

}  // namespace tandem
