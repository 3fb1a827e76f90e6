// Who wrote a part of a text: what a chat template writes may become control tokens, what it was given may not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// From most to least trusted, so that the larger of two is safe for both.
enum class Origin : uint8_t {
  kTemplate,   // The template's own text, and the file's own tokens.
  kAssistant,  // What the model generated earlier.
  kData,       // Everything else passed to a template.
};

inline Origin stricter(Origin a, Origin b) { return a < b ? b : a; }

// Bytes [begin, end) of a text. Lists of spans are ordered, do not overlap, and omit the template's own text.
struct OriginSpan {
  size_t begin = 0;
  size_t end = 0;
  Origin origin = Origin::kData;

  bool operator==(const OriginSpan&) const = default;
};

}  // namespace tandem
