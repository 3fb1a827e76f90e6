// A tokenizer for checkpoints with random weights: one token per byte, and ChatML's three special ones.
#pragma once

#include <cstdint>

#include "base/json.h"

namespace tandem::tools {

inline constexpr int64_t kEndOfText = 256;
inline constexpr int64_t kImStart = 257;
inline constexpr int64_t kImEnd = 258;
inline constexpr int64_t kByteTokenizerSize = 259;

// A tokenizer.json: byte-level BPE without merges; token b is byte b.
Json byte_tokenizer();

// A tokenizer_config.json with the ChatML template.
Json chatml_tokenizer_config(int64_t context);

}  // namespace tandem::tools
