// llama2.c's tokenizer.bin: u32 length of the longest piece, then for each piece f32 score, i32 length, its bytes.
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/import/sentencepiece_model.h"
#include "tokenizer/normalizer.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr size_t kHeadBytes = 4;
constexpr size_t kPieceHeadBytes = 8;

uint32_t load(std::string_view bytes, size_t at) {
  uint32_t value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

bool looks_like_llama2c_tokenizer(std::string_view bytes) {
  if (bytes.size() < kHeadBytes + kPieceHeadBytes) return false;
  const uint32_t longest = load(bytes, 0);
  const uint32_t first = load(bytes, kHeadBytes + 4);
  return longest > 0 && longest <= kMaxAddedTokenBytes && first <= longest;
}

Result<SentencePieceModel> read_llama2c_tokenizer(std::string_view bytes) {
  if (!looks_like_llama2c_tokenizer(bytes)) return corrupt("this is not a tokenizer.bin of llama2.c");
  const uint32_t longest = load(bytes, 0);
  bytes.remove_prefix(kHeadBytes);
  SentencePieceModel model;
  model.model_type = 2;
  model.byte_fallback = true;
  model.remove_extra_whitespaces = false;
  while (!bytes.empty()) {
    const size_t number = model.pieces.size();
    if (bytes.size() < kPieceHeadBytes) return corrupt("tokenizer.bin is cut off after {} pieces", number);
    if (number >= kMaxTokenId) return unsupported("tokenizer.bin has too many pieces");
    SentencePieceModel::Piece piece;
    std::memcpy(&piece.score, bytes.data(), sizeof piece.score);
    const uint32_t length = load(bytes, 4);
    bytes.remove_prefix(kPieceHeadBytes);
    if (length > longest || length > bytes.size()) {
      return corrupt("piece {} of tokenizer.bin says that it has {} bytes, which is too many", number, length);
    }
    piece.text = bytes.substr(0, length);
    bytes.remove_prefix(length);
    if (!std::isfinite(piece.score)) return corrupt("piece {} of tokenizer.bin has no valid score", number);
    if (!is_valid_utf8(piece.text)) return corrupt("piece {} of tokenizer.bin is not valid UTF-8", number);
    // The file has spaces where sentencepiece has U+2581. The first three pieces do not occur in texts, the next 256
    // are the bytes.
    if (number == 0) {
      piece = {"<unk>", 0, PieceType::kUnknown};
    } else if (number <= 2) {
      piece = {number == 1 ? "<s>" : "</s>", 0, PieceType::kControl};
    } else if (number < 259 && byte_of_fallback_token(piece.text) == number - 3) {
      piece.type = PieceType::kByte;
    } else {
      piece.text = replace_literal(piece.text, " ", "\xE2\x96\x81");
    }
    model.pieces.push_back(std::move(piece));
  }
  if (model.pieces.size() < 259) {
    return corrupt("tokenizer.bin has {} pieces; the bytes alone are 259", model.pieces.size());
  }
  return model;
}

}  // namespace tandem
