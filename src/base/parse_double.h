// Reading decimal numbers. std::from_chars() for double is missing in the C++ library of Android's NDK, and strtod()
// obeys the app's locale, which may have a decimal comma.
#pragma once

#include <optional>
#include <string_view>

namespace tandem {

// The nearest double if the whole text is one decimal number: an optional '-', digits with or without a point, an
// optional exponent. No white space, '+', hexadecimal digits, "inf" or "nan". Too large numbers are infinite.
std::optional<double> parse_double(std::string_view text);

}  // namespace tandem
