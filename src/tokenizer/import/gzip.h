// Inflates gzip files that tokenizers come in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

bool is_gzip(std::string_view bytes);
// The content of a gzip file (one or more members). Refuses more than `limit` bytes, and files that unpack to so much
// more than they have that they can only be meant to fill the memory, before memory is taken for them.
Result<std::string> gunzip(std::string_view bytes, uint64_t limit);

}  // namespace tandem
