// Recognizes a file by its first bytes, for errors that say more than "wrong format".
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

bool looks_like_gguf(std::span<const uint8_t> file);

// Why `file`, which should be `wanted` ("a GGUF file"), cannot be read, and what to do about it.
Error wrong_kind(std::span<const uint8_t> file, std::string_view what, std::string_view wanted);

}  // namespace tandem
