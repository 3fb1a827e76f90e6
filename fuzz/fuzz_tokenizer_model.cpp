// Arbitrary bytes as a sentencepiece model, a tiktoken file, a llama2.c tokenizer.bin, and a vocab.json with its
// merges.txt; what loads must encode and decode, in a stream and at once.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/import/sentencepiece_model.h"
#include "tokenizer/import/tiktoken_model.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/import/vocab_merges.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

namespace {

void use(const tandem::Result<tandem::TokenizerSpec>& spec) {
  if (!spec.ok()) return;
  const auto tokenizer = tandem::tokenizer_from_spec(*spec);
  if (!tokenizer.ok()) return;
  const auto ids = tokenizer->encode("Once upon a  time<s> ab na\xc3\xafve 12 \xe6\x97\xa5\n ", true);
  if (!ids.ok()) return;
  tandem::StreamDecoder stream(*tokenizer, false);
  std::string text;
  for (const int32_t id : *ids) text += stream.push(id);
  text += stream.flush();
  if (text != tokenizer->decode(*ids, false)) std::abort();
}

void use_pieces(const tandem::Result<tandem::SentencePieceModel>& model) {
  if (model.ok()) use(tandem::make_sentencepiece_spec(*model));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0: use_pieces(tandem::read_sentencepiece_model(bytes)); break;
    case 1: use_pieces(tandem::read_llama2c_tokenizer(bytes)); break;
    case 2: use(tandem::read_tiktoken(bytes, tandem::TiktokenUser::kLlama3)); break;
    case 3: use(tandem::read_tiktoken(bytes, tandem::TiktokenUser::kQwen)); break;
    default: {
      const size_t cut = bytes.find('\0');
      if (cut == std::string_view::npos) return 0;
      use(tandem::read_vocab_and_merges(bytes.substr(0, cut), bytes.substr(cut + 1), {}));
    }
  }
  return 0;
}
