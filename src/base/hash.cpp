#include "base/hash.h"

// Compiled in here, so that nothing links a library for it.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tandem {

uint64_t hash_bytes(std::span<const uint8_t> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

}  // namespace tandem
