// Tokens back to text, one at a time as they arrive. Decoding all at once gives the same text as decoding a stream.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/regex.h"
#include "tokenizer/tokenizer_spec.h"
#include "tokenizer/work_budget.h"

namespace tandem {

// The compiled steps. Immutable and shared by threads; each stream has its own DecodeStream.
class Decoder {
 public:
  // With `tokens_are_bytes`, the tokens only need to be concatenated (a byte-level tokenizer, compiled).
  static Result<Decoder> create(std::span<const DecoderStep> steps, bool tokens_are_bytes);

 private:
  friend class DecodeStream;
  struct Step {
    DecoderKind kind{};
    uint32_t options = 0;
    std::string pattern;
    std::string content;
    std::optional<Regex> regex;
    bool fused = false;  // The input is one token, in parts.
  };
  std::vector<Step> steps_;
  bool spaces_between_ = false;
};

class DecodeStream {
 public:
  // The decoder must outlive the stream.
  explicit DecodeStream(const Decoder& decoder) : decoder_(&decoder), states_(decoder.steps_.size()) {}

  // Consumes the next token and returns the text that is now certain, in whole characters. Text that a later token can
  // still change is held back: an unfinished character, a run of bytes, a possible start of a pattern.
  std::string push(std::string_view token);
  // The rest of the text. The stream can then be used again.
  std::string flush();

 private:
  struct State {
    std::string held;
    size_t count = 0;      // Tokens seen, or characters stripped.
    bool started = false;  // Strip: past the start of the text.
  };
  using Step = Decoder::Step;

  void give(size_t index, std::string_view text);
  void give_token(size_t index, std::string_view token);
  void give_part(size_t index, std::string_view part);
  void finish(size_t index);
  void release_bytes(size_t index);
  void strip_part(size_t index, std::string_view part);
  void replace_part(size_t index, std::string_view part);
  std::string replaced(const Step& step, std::string_view token);
  bool may_replace(const Step& step, size_t text) const;

  const Decoder* decoder_;
  std::vector<State> states_;
  size_t token_count_ = 0;
  std::string pending_;  // May end with an unfinished character.
  // For one call. When it is spent (steps that keep making a text longer, patterns that take too long), the rest of the
  // call's text passes unchanged: decoding cannot fail.
  WorkBudget budget_{0};
};

}  // namespace tandem
