// Checks of option values whose messages a person can read.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace tandem {

// A whole number of at least `least`. (CLI11's own PositiveNumber prints the largest double in full.)
inline CLI::Validator at_least(int64_t least) {
  return CLI::Validator(
      [least](const std::string& text) {
        int64_t value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least) return std::string();
        return text + " is not a whole number of at least " + std::to_string(least);
      },
      ">=" + std::to_string(least));
}

}  // namespace tandem
