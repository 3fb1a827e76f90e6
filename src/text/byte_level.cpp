#include "text/byte_level.h"

#include "text/utf8.h"

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

}  // namespace tandem
