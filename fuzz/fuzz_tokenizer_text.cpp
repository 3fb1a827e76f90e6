// Arbitrary text through the demo model's tokenizer, and through those of sentencepiece: streaming equals decoding at
// once, and what was valid comes back.
// Run from the repository's root, or give the file in TANDEM_FUZZ_TOKENIZER.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace {

tandem::Tokenizer load(const char* path) {
  auto tokenizer = tandem::tokenizer_from_file(path);
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    std::abort();
  }
  return *std::move(tokenizer);
}

const char* demo_path() {
  const char* path = std::getenv("TANDEM_FUZZ_TOKENIZER");
  return path != nullptr ? path : "tests/data/text/demo_tokenizer.json";
}

// The text of the ids, which must be the same in a stream and in whole characters.
std::string decode(const tandem::Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  tandem::StreamDecoder stream(tokenizer, skip_special);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string piece = stream.push(id);
    if (!tandem::is_valid_utf8(piece)) std::abort();
    streamed += piece;
  }
  streamed += stream.flush();
  if (streamed != tokenizer.decode(ids, skip_special)) std::abort();
  return streamed;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tandem::Tokenizer tokenizer = load(demo_path());
  static const tandem::Tokenizer others[] = {load("tests/data/text/sentencepiece_bpe.model"),
                                             load("tests/data/text/sentencepiece_unigram.model"),
                                             load("tests/data/text/sentencepiece_unigram_bytes.model")};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // The bytes as ids: any sequence of tokens decodes the same in both ways.
  std::vector<int32_t> random_ids;
  for (size_t i = 0; i + 1 < size; i += 2) random_ids.push_back((data[i] | data[i + 1] << 8) % 1400);
  for (const tandem::Tokenizer& other : others) {
    const auto ids = other.encode(text, true);
    if (!ids.ok()) std::abort();
    (void)decode(other, *ids, false);
    (void)decode(other, random_ids, true);
  }
  (void)decode(tokenizer, random_ids, true);
  // As data, no text becomes a special token, and none is lost.
  const tandem::OriginSpan all{0, text.size(), tandem::Origin::kData};
  for (const tandem::Tokenizer* each : {&tokenizer, &others[0], &others[1], &others[2]}) {
    const auto safe = each->encode(text, {false, {&all, 1}, nullptr});
    if (!safe.ok() || (safe->empty() && !each->encode(text, false)->empty())) std::abort();
    for (const int32_t id : *safe) {
      if (each->is_special(id) && each->token_bytes(id) != "<unk>") std::abort();
    }
  }
  const auto ids = tokenizer.encode(text, true);
  if (!ids.ok()) std::abort();
  const std::string decoded = decode(tokenizer, *ids, false);
  std::string repaired;
  tandem::append_utf8_lossy(repaired, text);
  // Added tokens split the text before it is normalized, so only texts without one are NFC as a whole.
  if (text.find("<|") == std::string_view::npos && decoded != tandem::nfc(repaired)) std::abort();
  return 0;
}
