// A tokenizer from a vocabulary given as lists of tokens, scores and merges (GGUF).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// As GGUF and sentencepiece number them.
enum class TokenKind : uint8_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<TokenKind> kinds;          // As many.
  std::vector<float> scores;             // As many, for sentencepiece.
  std::vector<std::string_view> merges;  // "a b", for byte-level BPE.
  std::string_view pre;                  // How byte-level BPE splits texts: "qwen2", "llama-bpe", ...
  bool add_space_prefix = true;          // sentencepiece
  std::optional<int64_t> bos;            // Added before each text.
  std::optional<int64_t> eos;            // Added after each text.
};

// sentencepiece's BPE: pieces with scores, and bytes for text without a piece. Merges are derived from the scores, as
// transformers does when it converts such a model.
Result<TokenizerSpec> sentencepiece_spec(const Vocabulary& vocabulary, std::string_view what);

// GPT-2's kind: tokens over 256 printable stand-ins for bytes, and a list of merges.
Result<TokenizerSpec> byte_level_spec(const Vocabulary& vocabulary, std::string_view what);

}  // namespace tandem
