// Text to token ids and back, exactly as the Hugging Face `tokenizers` library does it for byte-level BPE.
//
//   auto tokenizer = Tokenizer::from_file("checkpoint/tokenizer.json");
//   auto ids = tokenizer->encode("Once upon a time", /*add_special=*/true);
//   std::string text = tokenizer->decode(*ids, /*skip_special=*/true);
//
// Read from tokenizer.json when a model is compiled; at run time the compiled form (serialize(), from_blob()) is used
// where it lies in the artifact. Both ways run the same code: from_json() compiles, then opens what it compiled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// Immutable and thread-safe; copies are cheap and share the tables.
class Tokenizer {
 public:
  // The text of a tokenizer.json. What is not supported yet is refused by name (kUnsupported).
  static Result<Tokenizer> from_json(std::string_view tokenizer_json);
  // A tokenizer.json, plain or compressed by gzip.
  static Result<Tokenizer> from_file(const std::filesystem::path& path);
  // What serialize() gave. Used in place: `blob` must outlive the tokenizer and all its copies. Any bytes are safe.
  static Result<Tokenizer> from_blob(std::span<const uint8_t> blob);
  // The compiled form, for an artifact.
  std::vector<uint8_t> serialize() const;

  // The ids of a text. Bytes that are not UTF-8 count as U+FFFD, as in Rust's from_utf8_lossy (the library takes
  // nothing but valid text). `add_special` puts the tokens around it that the tokenizer's post-processor adds, such as
  // the beginning of text. Added tokens are recognised in the text either way.
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const;

  // The text of the ids. Bytes that make no UTF-8 come out as U+FFFD; ids that are not in use come out as nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special) const;

  // The largest id plus one. A model's vocabulary may be larger (padded).
  int32_t vocab_size() const;
  // The id of a token as tokenizer.json writes it: "<|im_end|>", "Ġthe".
  std::optional<int32_t> token_to_id(std::string_view token) const;
  // True for tokens that decode(…, skip_special) leaves out.
  bool is_special(int32_t id) const;
  // The bytes that decode() puts for this id: not always whole characters. Empty for an id that is not in use.
  std::string_view token_bytes(int32_t id) const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  static Result<Tokenizer> open(std::vector<uint8_t> owned, std::span<const uint8_t> blob);

  std::shared_ptr<const Impl> impl_;
};

}  // namespace tandem
