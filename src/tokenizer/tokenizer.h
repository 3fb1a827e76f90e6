// Text to token ids and back, exactly as the Hugging Face `tokenizers` library does it: BPE over bytes or over
// characters, and Unigram.
//
//   auto tokenizer = Tokenizer::from_blob(bytes);
//   auto ids = tokenizer->encode("Once upon a time", /*add_special=*/true);
//   std::string text = tokenizer->decode(*ids, /*skip_special=*/true);
//
// What runs is the compiled form, used where it lies in the artifact. tokenizer/import/ compiles the files of a
// checkpoint, when a model is compiled and for tests and tools, which then open what was compiled like any other.
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

// How a text is encoded that has parts which may not become control tokens.
struct EncodeOptions {
  bool add_special = false;  // As in encode().
  // Whose words the parts of the text are; what is in none is the template's own. In the model's words no special token
  // is recognised, in all others' no control token either. A token counts as theirs if one byte of its text is. The
  // text of what is not recognised is encoded as any other. The unknown token still stands for what no token stands
  // for.
  std::span<const OriginSpan> origins = {};
  const ControlTokens* control = nullptr;  // Besides those that are flagged as special; may be null.
};

// Immutable and thread-safe; copies are cheap and share the tables.
class Tokenizer {
 public:
  // The compiled form. Used in place: `blob` must outlive the tokenizer and all its copies. Any bytes are safe.
  static Result<Tokenizer> from_blob(std::span<const uint8_t> blob);
  // The same, of bytes that the tokenizer keeps.
  static Result<Tokenizer> from_owned_blob(std::vector<uint8_t> blob);
  std::span<const uint8_t> blob() const;

  // The ids of a text. Bytes that are not UTF-8 count as U+FFFD, as in Rust's from_utf8_lossy (the library takes
  // nothing but valid text). `add_special` puts the tokens around it that the tokenizer's post-processor adds, such as
  // the beginning of text. Added tokens are recognised in the text either way: whoever writes the text can write all
  // tokens. For text of others there is the second form.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const;
  Result<std::vector<int32_t>> encode(std::string_view text, const EncodeOptions& options) const;

  // The control tokens of a model that are not flagged as special, by the text of its chat templates.
  ControlTokens control_tokens(std::string_view template_sources) const;

  // The text of the ids. Bytes that make no UTF-8 come out as U+FFFD; ids that are not in use come out as nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // The largest id plus one. A model's vocabulary may be larger (padded).
  int32_t vocab_size() const;
  // The id of a token as tokenizer.json writes it: "<|im_end|>", "Ġthe".
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // True for tokens that decode(…, skip_special) leaves out.
  bool is_special(int32_t id) const;
  // What the token stands for: its bytes in a byte-level tokenizer (not always whole characters), else its name. Empty
  // for an id that is not in use.
  std::string_view token_bytes(int32_t id) const;

  // For StreamDecoder: how tokens become text, and a token as the decoder takes it; nothing if it is left out.
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
