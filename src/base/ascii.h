// Classes of ASCII characters, whatever the locale.
#pragma once

namespace tandem {

constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace tandem
