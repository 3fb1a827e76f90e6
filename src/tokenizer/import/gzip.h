// Inflates gzipped tokenizer files.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

bool is_gzip(std::string_view bytes);
// The content of a gzip file (one or more members). Before it allocates memory, refuses more than `limit` bytes, and
// compression ratios that only files made to exhaust memory have.
Result<std::string> gunzip(std::string_view bytes, uint64_t limit);

}  // namespace tandem
