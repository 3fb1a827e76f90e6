// Finds a substring in linear time, where std::string_view::find may take the product of both lengths.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem {

// Where the first `wanted` at or after `from` begins, or npos.
size_t find_text(std::string_view text, std::string_view wanted, size_t from = 0);
// Where the last one begins, or npos.
size_t find_last_text(std::string_view text, std::string_view wanted);

}  // namespace tandem
