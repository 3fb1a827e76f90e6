// Names, numbers and strings as they are written in a template.
#pragma once

#include <string>
#include <string_view>

#include "chat/jinja/value.h"

namespace tandem::jinja {

// The number of bytes at the start that are a name; 0: none.
size_t scan_name(std::string_view text);

struct NumberLiteral {
  size_t size = 0;  // 0: no number here.
  Value value;      // Undefined: too large.
};
// After a dot only integers are allowed: messages.0.role
NumberLiteral scan_number(std::string_view text, bool after_dot);

// What is between a string's quotes, with \n and the like undone.
Result<std::string> unescape(std::string_view text);

// The first character, for a message.
std::string printable_start(std::string_view text);

// int("12"), float("1e3") of a text; nullopt where Python would raise ValueError (or the integer is too large).
std::optional<int64_t> parse_int(std::string_view text, int base);
std::optional<double> parse_float(std::string_view text);

}  // namespace tandem::jinja
