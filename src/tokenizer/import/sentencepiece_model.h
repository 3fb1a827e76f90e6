// Reads sentencepiece's tokenizer.model (a protocol buffer) and llama2.c's tokenizer.bin, which holds the same pieces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

enum class PieceType : uint32_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  std::vector<Piece> pieces;
  uint64_t model_type = 1;  // 1 Unigram, 2 BPE, 3 words, 4 characters.
  bool byte_fallback = false;
  bool whitespace_is_suffix = false;
  int64_t bos_id = 1;  // Negative: there is none.
  int64_t eos_id = 2;
  std::string normalizer;  // "identity", "nmt_nfkc", …
  std::string chars_map;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

Result<SentencePieceModel> read_sentencepiece_model(std::string_view bytes);
Result<SentencePieceModel> read_llama2c_tokenizer(std::string_view bytes);

// True if the bytes could be the start of such a file.
bool looks_like_sentencepiece(std::string_view bytes);
bool looks_like_llama2c_tokenizer(std::string_view bytes);

// Control pieces become special tokens that are matched in texts, as in transformers; a beginning-of-text token is
// prepended if the model has one.
Result<TokenizerSpec> make_sentencepiece_spec(const SentencePieceModel& model);

}  // namespace tandem
