#include "tokenizer/chars_map.h"

#include <cstring>
#include <optional>

#include "base/error.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// A hostile trie could match forever. Genuine runs have about ten bytes.
constexpr size_t kMaxRun = 256;

// A unit of the double array: the label of the edge to it, whether it has a value, and where its children are.
constexpr uint32_t label_of(uint32_t unit) { return unit & 0x800000ffu; }
constexpr bool has_leaf(uint32_t unit) { return (unit & 0x100u) != 0; }
constexpr uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Result<CharsMap> CharsMap::create(std::string_view bytes) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < 4) return corrupt("the tokenizer's character map is cut off");
  std::memcpy(&trie_bytes, bytes.data(), 4);
  bytes.remove_prefix(4);
  if (trie_bytes > bytes.size() || trie_bytes % 4 != 0 || trie_bytes == 0) {
    return corrupt("the tokenizer's character map says that its trie has {} bytes, but {} are there", trie_bytes,
                   bytes.size());
  }
  CharsMap map;
  map.units_.resize(trie_bytes / 4);
  std::memcpy(map.units_.data(), bytes.data(), trie_bytes);
  map.replacements_ = bytes.substr(trie_bytes);
  if (!is_valid_utf8(map.replacements_)) return corrupt("the tokenizer's character map has broken replacements");
  return map;
}

std::string CharsMap::apply(std::string_view text, size_t limit) const {
  std::string out;
  out.reserve(text.size());
  while (!text.empty() && out.size() <= limit) {
    size_t longest = 0;
    uint32_t value = 0;
    uint64_t place = offset_of(units_[0]);
    for (size_t i = 0; i < text.size() && i < kMaxRun; ++i) {
      const auto byte = static_cast<uint8_t>(text[i]);
      place ^= byte;
      if (place >= units_.size() || label_of(units_[place]) != byte) break;
      const uint32_t unit = units_[place];
      place ^= offset_of(unit);
      if (has_leaf(unit) && place < units_.size()) {
        value = units_[place] & 0x7fffffffu;
        longest = i + 1;
      }
    }
    // A hostile trie could end in the middle of a character, or of a replacement.
    const bool whole = longest == text.size() || (longest > 0 && (static_cast<uint8_t>(text[longest]) & 0xc0) != 0x80);
    if (longest > 0 && whole && value < replacements_.size() &&
        (static_cast<uint8_t>(replacements_[value]) & 0xc0) != 0x80) {
      const size_t end = replacements_.find('\0', value);
      out.append(replacements_, value, end == std::string::npos ? std::string::npos : end - value);
      text.remove_prefix(longest);
    } else {
      const size_t length = next_valid_utf8(text).length;
      out.append(text.substr(0, length));
      text.remove_prefix(length);
    }
  }
  return out;
}

}  // namespace tandem
