// Arbitrary bytes as a compiled tokenizer. Each input is tried as it is, and as changes to a good one: pairs of a
// 24-bit offset and a byte to write there, which reaches deeper than random bytes.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"

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

std::vector<uint8_t> make_blob(std::string_view json) {
  const auto tokenizer = tandem::tokenizer_from_json(json);
  if (!tokenizer.ok()) std::abort();
  return tandem::serialize_tokenizer(*tokenizer);
}

// Bytes, characters and Unigram, with as many kinds of steps as possible.
std::vector<std::vector<uint8_t>> make_blobs() {
  return {
      make_blob(R"({"version":"1.0","added_tokens":[{"id":9,"content":"<a>",
    "single_word":true,"lstrip":true,"rstrip":true,"normalized":false,"special":true},{"id":9,"content":"na",
    "single_word":false,"lstrip":false,"rstrip":false,"normalized":true,"special":false}],"normalizer":{"type":"NFC"},
    "pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"\\p{L}+|\\s+"},
    "behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},{"type":"ByteLevel",
    "add_prefix_space":true,"use_regex":true}]},"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{
    "type":"BPE","unk_token":"a","ignore_merges":true,"vocab":{"a":0,"b":1,"c":2,"Ġ":3,"ab":4,"Ġa":5,"e":6,"t":7},
    "merges":["a b","Ġ a"]}})"),
      make_blob(R"({"version":"1.0","added_tokens":[{"id":9,"content":"<a>","special":true,"normalized":true}],
    "normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Lowercase"},{"type":"Strip","strip_left":true,
    "strip_right":true},{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"},
    {"type":"Replace","pattern":{"Regex":"[0-9]+"},"content":"#"},{"type":"StripAccents"}]},"pre_tokenizer":{"type":
    "Sequence","pretokenizers":[{"type":"Punctuation"},{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"},
    {"type":"WhitespaceSplit"}]},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},
    "content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":1},
    {"type":"Replace","pattern":{"String":"ab"},"content":"x"}]},"model":{"type":"BPE","unk_token":"<0x41>",
    "byte_fallback":true,"fuse_unk":true,"vocab":{"a":0,"b":1,"▁":2,"ab":3,"▁a":4,"<0x41>":5,"<0xE6>":6,"<0x97>":7,
    "<0xA5>":8},"merges":[["a","b"],["▁","a"]]}})"),
      make_blob(R"({"version":"1.0","added_tokens":[],"normalizer":{"type":"NFD"},"pre_tokenizer":{"type":"Whitespace"},
    "decoder":{"type":"Metaspace","replacement":"▁"},"model":{"type":"Unigram","unk_id":0,"byte_fallback":true,"vocab":[
    ["<unk>",0.0],["a",-1.0],["b",-2.0],["ab",-2.5],["e",-3.0],["<0xE6>",-4.0],["time",-5.5],["ti",-3.5]]}})")};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::vector<uint8_t>> good = make_blobs();
  use({data, size});
  for (std::vector<uint8_t> changed : good) {
    for (size_t i = 0; i + 4 <= size; i += 4) {
      const size_t at = data[i] | size_t{data[i + 1]} << 8 | size_t{data[i + 2]} << 16;
      changed[at % changed.size()] = data[i + 3];
    }
    use(changed);
  }
  return 0;
}
