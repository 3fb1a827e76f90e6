// Separates a thinking model's reasoning from its answer, while both are being generated.
//
// An answer that begins with <think> has its reasoning up to </think>. Templates of some models write the <think>
// themselves, at the end of the prompt; then the answer begins inside. Anywhere else the tags are ordinary text.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

inline constexpr std::string_view kThinkBegin = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";

class ReasoningSplitter {
 public:
  struct Pieces {
    std::string reasoning;
    std::string answer;
  };

  // Splits nothing: everything is answer.
  ReasoningSplitter() = default;
  // For the text generated after a rendered prompt.
  static ReasoningSplitter after_prompt(std::string_view prompt);

  bool splits() const { return state_ != State::kAnswer; }
  // Consumes text in whole characters and returns what is certain by now. Newlines around the reasoning and before the
  // answer belong to neither.
  Pieces push(std::string_view text);
  // What was held back, at the end of the text.
  Pieces flush();

 private:
  enum class State { kBegin, kReasoning, kBeforeAnswer, kAnswer };

  void read_begin(Pieces& pieces);
  void read_reasoning(Pieces& pieces);

  State state_ = State::kAnswer;
  std::string held_;
  bool reasoning_begun_ = false;
};

}  // namespace tandem
