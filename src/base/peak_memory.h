// The memory that this process needed.
#pragma once

#include <cstdint>

namespace tandem {

// The most bytes that were resident at any time so far, pages of mapped files included; 0 if the system does not say.
uint64_t peak_memory();

}  // namespace tandem
