// Arbitrary bytes as a tokenizer.json; what loads must encode, decode in a stream as at once, and survive being
// compiled.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tokenizer = tandem::tokenizer_from_json({reinterpret_cast<const char*>(data), size});
  if (!tokenizer.ok()) return 0;
  const std::string_view text = "Hello there's <|a|> na\xc3\xafve  e\xcc\x81 12\n\n\xe6\x97\xa5 aaaaaaaaaaaaaaaa \xff";
  // A text that repeats itself makes patterns, long pieces and steps that grow show what they cost: the fuzzer's limit
  // of seconds finds what is not charged.
  std::string pumped;
  while (pumped.size() < 20'000) pumped += "aaaaaaaa";
  (void)tokenizer->encode(pumped, false);
  const auto ids = tokenizer->encode(text, true);
  const auto compiled = tandem::serialize_tokenizer(*tokenizer);
  const auto again = tandem::Tokenizer::from_blob(compiled);
  if (!again.ok()) std::abort();
  const auto same = again->encode(text, true);
  if (ids.ok() != same.ok()) std::abort();
  if (ids.ok() && (*ids != *same || tokenizer->decode(*ids, false) != again->decode(*same, false))) std::abort();
  if (ids.ok()) {
    tandem::StreamDecoder stream(*again, true);
    std::string streamed;
    for (const int32_t id : *ids) streamed += stream.push(id);
    streamed += stream.flush();
    if (streamed != tokenizer->decode(*ids, true)) std::abort();
  }
  return 0;
}
