// Text to token ids and back, exactly as the Hugging Face `tokenizers` library does it: BPE over bytes or over
// characters, and Unigram.
//
//   auto tokenizer = Tokenizer::from_blob(bytes);
//   auto ids = tokenizer->encode("Once upon a time", /*add_special=*/true);
//   std::string text = tokenizer->decode(*ids, /*skip_special=*/true);
//
// It runs the compiled form, in place in the artifact. tokenizer/import/ compiles the files of a checkpoint, when a
// model is compiled and for tests and tools, which then open the result like any other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/origin.h"
#include "tandem/status.h"

namespace tandem {

class ControlTokens;
class Decoder;

// How to encode a text with parts that may not become control tokens.
struct EncodeOptions {
  bool add_special = false;  // As in encode().
  // The origins of the parts of the text; the rest is the template's. No special token is recognised in the model's
  // parts, and no control token either in those of others. A token belongs to a part if any byte of its text does. A
  // token that is not recognised is encoded like any other text. The unknown token still represents text that no other
  // token does.
  std::span<const OriginSpan> origins = {};
  const ControlTokens* control = nullptr;  // Besides those that are flagged as special; may be null.
};

// Immutable and thread-safe; copies are cheap and share the tables.
class Tokenizer {
 public:
  // The compiled form. Used in place: `blob` must outlive the tokenizer and all its copies. Any bytes are safe.
  static Result<Tokenizer> from_blob(std::span<const uint8_t> blob);
  // The same, for bytes that the tokenizer owns.
  static Result<Tokenizer> from_owned_blob(std::vector<uint8_t> blob);
  std::span<const uint8_t> blob() const;

  // The ids of a text. Bytes that are not UTF-8 count as U+FFFD, as in Rust's from_utf8_lossy (the library accepts only
  // valid text). `add_special` adds the tokens of the tokenizer's post-processor, such as the beginning of text. Added
  // tokens are recognised in the text either way: whoever writes the text can write any token. Use the second form for
  // untrusted text.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const;
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options) const;

  // The control tokens of a model that are not flagged as special, found in the text of its chat templates.
  ControlTokens control_tokens(std::string_view template_sources) const;

  // The text of the ids. Bytes that are not UTF-8 yield U+FFFD; unused ids yield nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // The largest id plus one. A model's vocabulary may be larger (padded).
  int32_t vocab_size() const;
  // The id of a token as tokenizer.json writes it: "<|im_end|>", "Ġthe".
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // True for tokens that decode(…, skip_special) omits.
  bool is_special(int32_t id) const;
  // What the token stands for: its bytes in a byte-level tokenizer (not always whole characters), else its name. Empty
  // for an unused id.
  std::string_view token_bytes(int32_t id) const;

  // For StreamDecoder: how tokens become text, and a token as the decoder's input; nothing if it is omitted.
  const Decoder& decoder() const;
  std::optional<std::string_view> decoded_token(int32_t id, bool skip_special) const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  static Result<Tokenizer> open(std::vector<uint8_t> owned, std::span<const uint8_t> blob);
  Result<std::vector<int32_t>> encode_valid(std::string_view text, const EncodeOptions& options) const;

  std::shared_ptr<const Impl> impl_;
};

}  // namespace tandem
