// The checksum of files, segments and binaries.
#pragma once

#include <cstdint>
#include <span>

namespace tandem {

// XXH3-64, at the speed of memory.
uint64_t hash_bytes(std::span<const uint8_t> bytes);

}  // namespace tandem
