// Whose words a part of a text is: what a chat template writes may become control tokens, what it was given may not.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

// In the order of how little they may do, so that the larger of two is safe for both.
enum class Origin : uint8_t {
  kTemplate,   // The template's own text, and the file's own tokens.
  kAssistant,  // What the model wrote earlier.
  kData,       // Everything else that a template is given.
};

inline Origin stricter(Origin a, Origin b) { return a < b ? b : a; }

// Bytes [begin, end) of a text. Lists of spans are ordered, do not overlap, and leave out what is the template's own.
struct OriginSpan {
  size_t begin = 0;
  size_t end = 0;
  Origin origin = Origin::kData;

  bool operator==(const OriginSpan&) const = default;
};

}  // namespace tandem
