// Ends a stream of text at the first of several stop strings, without ever showing a part of one.
//
//   auto stop = StopStrings::create({"\nUser:", "</answer>"});
//   emit(stop->push(piece));
//   if (stop->reached()) …  // the stop string and what came after it are not emitted
//   emit(stop->flush());    // at the end without a stop: what was held back
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

class StopStrings {
 public:
  // Stop strings must be valid UTF-8 and not empty. An empty list is fine: everything passes.
  static Result<StopStrings> create(std::vector<std::string> strings);

  // Consumes text and returns the text that is safe to show: what could still become a stop string is held back. Text
  // that comes in whole characters goes out in whole characters. After a stop, everything is swallowed.
  std::string push(std::string_view text);
  // What was held back, when the text ends without a stop string.
  std::string flush();
  // The stop string that ended the text: the one that was complete first; of several at the same byte, the longest. How
  // the text is cut into pieces makes no difference.
  const std::optional<std::string>& reached() const { return reached_; }
  // Forgets all text, for the next turn.
  void reset();

 private:
  struct Matcher {
    std::string text;
    std::vector<uint32_t> failure;  // Knuth, Morris and Pratt: the longest border of each prefix.
    size_t matched = 0;             // How much of `text` the stream ends with.
  };

  std::vector<Matcher> matchers_;
  std::string held_;
  std::optional<std::string> reached_;
};

}  // namespace tandem
