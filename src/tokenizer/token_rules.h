// Which tokens a text may become: not all text that reads like a control token was meant as one.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/origin.h"
#include "tokenizer/tokenizer_blob.h"

namespace tandem {

// Added tokens that steer a model although they are not flagged as special, such as Qwen's <tool_response>: those that
// its chat template writes.
class ControlTokens {
 public:
  ControlTokens() = default;
  // `sources`: the text of the model's templates. White space, plain words and punctuation are in every template and
  // steer nothing; only tokens that have both a letter or digit and a punctuation mark count.
  ControlTokens(const TokenizerBlob& blob, std::string_view sources);

  bool contains(uint32_t id) const;

 private:
  std::vector<uint32_t> ids_;  // Sorted.
};

class TokenRules {
 public:
  TokenRules(const TokenizerBlob& blob, const ControlTokens* control) : blob_(&blob), control_(control) {}

  // Whether text of this origin may not become this token: special tokens are only for the template; the model may also
  // have written other control tokens.
  bool refuses(uint32_t id, Origin origin) const;
  bool refuses_any(std::span<const int32_t> ids, Origin origin) const;

 private:
  const TokenizerBlob* blob_;
  const ControlTokens* control_;  // May be null: there are none.
};

// The strictest origin of the bytes [begin, end).
Origin strictest_origin(std::span<const OriginSpan> spans, size_t begin, size_t end);
// The spans of the bytes [begin, end), counted from `begin`.
std::vector<OriginSpan> clip_origins(std::span<const OriginSpan> spans, size_t begin, size_t end);

// Which tokens a word may not become, for an encoder that handles single tokens; by default none is refused.
struct Refusal {
  const TokenRules* rules = nullptr;
  Origin origin = Origin::kTemplate;

  bool operator()(uint32_t id) const { return rules != nullptr && rules->refuses(id, origin); }
};

// The same for parts of a text.
struct SectionRules {
  const TokenRules& rules;
  std::span<const OriginSpan> origins;  // Of the text.

  bool refuses(uint32_t id, size_t begin, size_t end) const {
    return rules.refuses(id, strictest_origin(origins, begin, end));
  }
};

}  // namespace tandem
