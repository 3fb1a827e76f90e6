// Libraries name options by their field, in backticks: "use a shorter `context`". Users of the command line know flags
// instead.
#pragma once

#include <string>
#include <string_view>

namespace tandem {

// "use a shorter --context". Other words in backticks are unchanged.
std::string with_flags(std::string_view message);

}  // namespace tandem
