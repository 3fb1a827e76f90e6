// Decodes tokens as they are generated: whole characters only, and in sum the same text as Tokenizer::decode().
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"

namespace tandem {

class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

  // The text that this token completes; empty while a character lacks bytes. Bytes that can no longer become a
  // character come out as U+FFFD at once.
  std::string push(int32_t id);
  // What is left at the end: U+FFFD for an unfinished character, else nothing. The decoder can then be used again.
  std::string flush();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string pending_;  // The beginning of a character: at most three bytes.
};

}  // namespace tandem
