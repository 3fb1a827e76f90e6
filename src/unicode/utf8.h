// UTF-8, one sequence at a time, with the replacement rule of the WHATWG and of Rust's from_utf8_lossy: each longest
// run of bytes that could have begun a character, but did not continue as one, becomes a single U+FFFD.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tandem {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

enum class Utf8Kind : uint8_t {
  kValid,       // A whole character.
  kInvalid,     // These bytes can never become one.
  kIncomplete,  // The text ends here, and more bytes could make it one.
};

struct Utf8Sequence {
  char32_t code_point;  // U+FFFD unless valid.
  uint8_t length;       // Bytes it takes, at least 1.
  Utf8Kind kind;
};

// The sequence at the start of `bytes`, which must not be empty.
Utf8Sequence next_utf8(std::string_view bytes);

// The character at the start of text that is known to be valid and not empty.
inline Utf8Sequence next_valid_utf8(std::string_view text) {
  const auto first = static_cast<uint8_t>(text[0]);
  if (first < 0x80) return {first, 1, Utf8Kind::kValid};
  const auto tail = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i]) & 0x3f); };
  if (first < 0xe0) return {(static_cast<char32_t>(first & 0x1f) << 6) | tail(1), 2, Utf8Kind::kValid};
  if (first < 0xf0) {
    return {(static_cast<char32_t>(first & 0x0f) << 12) | (tail(1) << 6) | tail(2), 3, Utf8Kind::kValid};
  }
  return {(static_cast<char32_t>(first & 0x07) << 18) | (tail(1) << 12) | (tail(2) << 6) | tail(3), 4,
          Utf8Kind::kValid};
}

bool is_valid_utf8(std::string_view bytes);
// Appends `bytes` to `text`, with U+FFFD for what is not UTF-8. An unfinished sequence at the end is one U+FFFD.
void append_utf8_lossy(std::string& text, std::string_view bytes);
// Appends a code point, which must be a Unicode scalar value.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace tandem
