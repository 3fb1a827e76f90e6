// sentencepiece's "precompiled_charsmap": a trie from characters, or short runs of them, to what replaces them.
//
// Little-endian: u32 size of the trie in bytes; the trie, a double array of u32 units as darts-clone writes it; then
// the replacements, NUL-terminated; the trie's values are offsets into them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

class CharsMap {
 public:
  // Any bytes are safe.
  static Result<CharsMap> create(std::string_view bytes);
  // At each position, replaces the longest run that is in the trie; other characters stay. Stops once the output
  // exceeds `limit` bytes.
  std::string apply(std::string_view text, size_t limit) const;

 private:
  std::vector<uint32_t> units_;
  std::string replacements_;
};

}  // namespace tandem
