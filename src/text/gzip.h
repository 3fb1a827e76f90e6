// Inflates gzip files that tokenizers come in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

bool is_gzip(std::string_view bytes);
// The content of a gzip file (one or more members); refuses to make more than `limit` bytes.
Result<std::string> gunzip(std::string_view bytes, uint64_t limit);

}  // namespace tandem
