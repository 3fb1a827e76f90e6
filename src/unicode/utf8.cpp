#include "unicode/utf8.h"

#include <cstring>

namespace tandem {

Utf8Sequence next_utf8(std::string_view bytes) {
  const auto first = static_cast<uint8_t>(bytes[0]);
  if (first < 0x80) return {first, 1, Utf8Kind::kValid};

  // The second byte's range depends on the first (no overlong forms, no surrogates, nothing above U+10FFFF).
  uint8_t low = 0x80;
  uint8_t high = 0xbf;
  uint8_t length;
  char32_t code_point;
  if (first >= 0xc2 && first <= 0xdf) {
    length = 2;
    code_point = first & 0x1f;
  } else if (first >= 0xe0 && first <= 0xef) {
    length = 3;
    code_point = first & 0x0f;
    if (first == 0xe0) low = 0xa0;
    if (first == 0xed) high = 0x9f;
  } else if (first >= 0xf0 && first <= 0xf4) {
    length = 4;
    code_point = first & 0x07;
    if (first == 0xf0) low = 0x90;
    if (first == 0xf4) high = 0x8f;
  } else {
    return {0xfffd, 1, Utf8Kind::kInvalid};
  }

  for (uint8_t i = 1; i < length; ++i) {
    if (i >= bytes.size()) return {0xfffd, i, Utf8Kind::kIncomplete};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte < low || byte > high) return {0xfffd, i, Utf8Kind::kInvalid};
    code_point = (code_point << 6) | (byte & 0x3f);
    low = 0x80;
    high = 0xbf;
  }
  return {code_point, length, Utf8Kind::kValid};
}

bool is_valid_utf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    // Most text is ASCII: eight bytes at a time.
    while (i + 8 <= bytes.size()) {
      uint64_t word;
      std::memcpy(&word, bytes.data() + i, 8);
      if ((word & 0x8080808080808080u) != 0) break;
      i += 8;
    }
    if (i == bytes.size()) break;
    const Utf8Sequence sequence = next_utf8(bytes.substr(i));
    if (sequence.kind != Utf8Kind::kValid) return false;
    i += sequence.length;
  }
  return true;
}

void append_utf8_lossy(std::string& text, std::string_view bytes) {
  size_t good_from = 0;
  size_t i = 0;
  while (i < bytes.size()) {
    const Utf8Sequence sequence = next_utf8(bytes.substr(i));
    if (sequence.kind != Utf8Kind::kValid) {
      text.append(bytes, good_from, i - good_from);
      text.append(kReplacementCharacter);
      good_from = i + sequence.length;
    }
    i += sequence.length;
  }
  text.append(bytes, good_from, bytes.size() - good_from);
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | (code_point >> 6));
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | (code_point >> 12));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | (code_point >> 18));
    put(0x80 | ((code_point >> 12) & 0x3f));
    put(0x80 | ((code_point >> 6) & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

}  // namespace tandem
