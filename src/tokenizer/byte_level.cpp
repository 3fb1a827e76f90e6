#include "tokenizer/byte_level.h"

#include <array>

#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr bool stands_for_itself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

constexpr int kOthers = 68;

constexpr std::array<uint8_t, kOthers> make_others() {
  std::array<uint8_t, kOthers> others{};
  size_t count = 0;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) others[count++] = static_cast<uint8_t>(byte);
  }
  return others;
}

constexpr std::array<uint8_t, kOthers> kOtherBytes = make_others();

constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) characters[byte] = stands_for_itself(byte) ? byte : next++;
  return characters;
}

constexpr std::array<char32_t, 256> kCharacters = make_characters();

}  // namespace

std::optional<uint8_t> byte_of_byte_level(char32_t c) {
  if (c < 256) {
    if (!stands_for_itself(c)) return std::nullopt;
    return static_cast<uint8_t>(c);
  }
  if (c < 256 + kOthers) return kOtherBytes[c - 256];
  return std::nullopt;
}

std::optional<std::string> bytes_from_byte_level(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  while (!token.empty()) {
    const Utf8Sequence sequence = next_utf8(token);
    if (sequence.kind != Utf8Kind::kValid) return std::nullopt;
    const std::optional<uint8_t> byte = byte_of_byte_level(sequence.code_point);
    if (!byte) return std::nullopt;
    bytes.push_back(static_cast<char>(*byte));
    token.remove_prefix(sequence.length);
  }
  return bytes;
}

std::string byte_level_from_bytes(std::string_view bytes) {
  std::string token;
  token.reserve(bytes.size() * 2);
  for (const char byte : bytes) append_utf8(token, kCharacters[static_cast<uint8_t>(byte)]);
  return token;
}

std::optional<uint8_t> byte_of_fallback_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return std::nullopt;
  uint32_t value = 0;
  for (const char c : token.substr(3, 2)) {
    const char lower = c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c;
    if (lower >= '0' && lower <= '9') {
      value = value * 16 + static_cast<uint32_t>(lower - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + static_cast<uint32_t>(lower - 'a') + 10;
    } else {
      return std::nullopt;
    }
  }
  return static_cast<uint8_t>(value);
}

}  // namespace tandem
