// The byte-level alphabet of GPT-2: each of the 256 bytes has its own printable character, so that a vocabulary over
// bytes can be written as text. Bytes that are printable in Latin-1 stand for themselves; the others use the code
// points from U+0100 on, in order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The byte that a character of the alphabet stands for.
std::optional<uint8_t> byte_of_byte_level(char32_t code_point);
// The bytes that a vocabulary entry stands for; nothing if a character is outside the alphabet.
std::optional<std::string> bytes_from_byte_level(std::string_view token);
// The inverse: each byte as its character.
std::string byte_level_from_bytes(std::string_view bytes);

// The byte of a token "<0xNN>", as tokenizers write bytes that are not in a vocabulary of characters.
std::optional<uint8_t> byte_of_fallback_token(std::string_view token);

}  // namespace tandem
