// The first 64 bytes of an artifact, little-endian.
#pragma once

#include <array>
#include <cstdint>

namespace tandem {

inline constexpr std::array<char, 8> kMagic = {'T', 'A', 'N', 'D', 'E', 'M', '\r', '\n'};

struct Preamble {
  std::array<char, 8> magic = kMagic;
  uint32_t version = 0;
  uint32_t reserved = 0;
  uint64_t file_size = 0;
  uint64_t header_offset = 0;
  uint64_t header_size = 0;
  uint64_t header_hash = 0;  // XXH3-64 of the header.
  uint64_t reserved2 = 0;
  uint64_t preamble_hash = 0;  // XXH3-64 of the 56 bytes before.
};
static_assert(sizeof(Preamble) == 64);

}  // namespace tandem
