// Arbitrary text through the demo model's tokenizer: streaming equals decoding at once, and what was valid comes back.
// Run from the repository's root, or give the file in TANDEM_FUZZ_TOKENIZER.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace {

tandem::Tokenizer load() {
  const char* path = std::getenv("TANDEM_FUZZ_TOKENIZER");
  auto tokenizer = tandem::Tokenizer::from_file(path != nullptr ? path : "tests/data/text/demo_tokenizer.json");
  if (!tokenizer.ok()) {
    std::fprintf(stderr, "%s\n", tokenizer.error().message.c_str());
    std::abort();
  }
  return *std::move(tokenizer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const tandem::Tokenizer tokenizer = load();
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto ids = tokenizer.encode(text, true);
  if (!ids.ok()) std::abort();
  const std::string decoded = tokenizer.decode(*ids, false);
  tandem::StreamDecoder stream(tokenizer, false);
  std::string streamed;
  for (const int32_t id : *ids) {
    const std::string piece = stream.push(id);
    if (!tandem::is_valid_utf8(piece)) std::abort();
    streamed += piece;
  }
  streamed += stream.flush();
  if (streamed != decoded) std::abort();
  std::string repaired;
  tandem::append_utf8_lossy(repaired, text);
  // Added tokens split the text before it is normalized, so only texts without one are NFC as a whole.
  if (text.find("<|") == std::string_view::npos && decoded != tandem::nfc(repaired)) std::abort();
  // The bytes as ids: any sequence of tokens decodes the same in both ways.
  std::string all;
  tandem::StreamDecoder random(tokenizer, true);
  std::vector<int32_t> random_ids;
  for (size_t i = 0; i + 1 < size; i += 2) random_ids.push_back((data[i] | data[i + 1] << 8) % 1400);
  for (const int32_t id : random_ids) all += random.push(id);
  all += random.flush();
  if (all != tokenizer.decode(random_ids, true)) std::abort();
  return 0;
}
