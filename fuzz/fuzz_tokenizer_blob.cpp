// Arbitrary bytes as a compiled tokenizer. Each input is tried as it is, and as changes to a good one: pairs of a
// 24-bit place and a byte to put there, which reaches deeper than bytes from nowhere.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace {

void use(std::span<const uint8_t> blob) {
  const auto tokenizer = tandem::Tokenizer::from_blob(blob);
  if (!tokenizer.ok()) return;
  const auto ids = tokenizer->encode("Once upon a <a> time, ab there's na\xc3\xafve 12 \xe6\x97\xa5\n", true);
  if (ids.ok()) {
    tandem::StreamDecoder stream(*tokenizer, true);
    std::string text;
    for (const int32_t id : *ids) text += stream.push(id);
    text += stream.flush();
    if (text != tokenizer->decode(*ids, true)) std::abort();
  }
  for (int32_t id = -1; id < 300; ++id) (void)tokenizer->token_bytes(id);
  (void)tokenizer->token_to_id("<a>");
  (void)tokenizer->token_to_id("ab");
}

std::vector<uint8_t> make_blob() {
  const auto tokenizer = tandem::Tokenizer::from_json(R"({"version":"1.0","added_tokens":[{"id":9,"content":"<a>",
    "single_word":true,"lstrip":true,"rstrip":true,"normalized":false,"special":true},{"id":9,"content":"na",
    "single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}],"normalizer":{"type":"NFC"},
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+|\\s+"},
    "behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},{"type":"ByteLevel",
    "add_prefix_space":true,"use_regex":true}]},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{
    "type":"BPE","unk_token":"a","ignore_merges":true,"vocab":{"a":0,"b":1,"c":2,"Ġ":3,"ab":4,"Ġa":5,"e":6,"t":7},
    "merges":["a b","Ġ a"]}})");
  if (!tokenizer.ok()) std::abort();
  return tokenizer->serialize();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<uint8_t> good = make_blob();
  use({data, size});
  std::vector<uint8_t> changed = good;
  for (size_t i = 0; i + 4 <= size; i += 4) {
    const size_t at = data[i] | size_t{data[i + 1]} << 8 | size_t{data[i + 2]} << 16;
    changed[at % changed.size()] = data[i + 3];
  }
  use(changed);
  return 0;
}
