// Checks of option values, strict and with readable messages. CLI11's parsing of numbers accepts -1 for an unsigned
// one, 2^64 as 2^64 - 1, 0x10, " 5", nan and inf; these accept none of that.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tandem {

// More than any count that a user can mean, and small enough to add and multiply two of them.
inline constexpr int64_t kMaxCount = std::numeric_limits<int32_t>::max();
inline constexpr int64_t kMaxThreads = 1024;

// A whole number from `least` to `most`, in decimal digits.
CLI::Validator whole_number(int64_t least, int64_t most = kMaxCount);
// Any unsigned 64-bit number.
CLI::Validator any_unsigned();
// A decimal number from `least` to `most`, which may be infinite; never infinite or NaN itself.
CLI::Validator real_number(double least, double most);
// The same, but above `least`.
CLI::Validator real_number_above(double least, double most);
// Whole numbers from `least` to `most`, separated by commas; none is empty.
CLI::Validator number_list(int64_t least, int64_t most = kMaxCount);
// The numbers in values that number_list() has accepted.
std::vector<int64_t> parse_number_list(const std::vector<std::string>& values);
// Names separated by commas; none is empty.
CLI::Validator name_list();
std::vector<std::string> parse_name_list(const std::vector<std::string>& values);

// A value that `parse`, which returns a Result, accepts; its message says what is wrong otherwise.
template <typename Parse>
CLI::Validator accepted_by(Parse parse, const std::string& description = "") {
  const auto check = [parse](const std::string& text) {
    const auto parsed = parse(text);
    return parsed.ok() ? std::string() : parsed.error().message;
  };
  return {check, description};
}

// Refuses empty values for all options of a command except those named: "" is more often an unset shell variable than
// intended, and it would silently mean the default.
void refuse_empty_values(CLI::App& command, const std::vector<std::string>& may_be_empty);

}  // namespace tandem
