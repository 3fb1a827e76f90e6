// Decodes tokens as they are generated: whole characters only, and in total the same text as Tokenizer::decode().
#pragma once

#include <cstdint>
#include <string>

#include "tokenizer/decoder.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = true)
      : tokenizer_(std::move(tokenizer)), skip_special_(skip_special), stream_(tokenizer_.decoder()) {}

  // The text that this token completes; empty while a character lacks bytes. Bytes that can no longer become a
  // character yield U+FFFD. Tokenizers with byte fallback emit a run of bytes once it has ended.
  std::string push(int32_t id) {
    const std::optional<std::string_view> token = tokenizer_.decoded_token(id, skip_special_);
    return token ? stream_.push(*token) : std::string();
  }
  // What is left at the end: U+FFFD for an unfinished character, else nothing. The decoder can then be used again.
  std::string flush() { return stream_.flush(); }

 private:
  Tokenizer tokenizer_;  // Keeps alive what the stream refers to.
  bool skip_special_;
  DecodeStream stream_;
};

}  // namespace tandem
