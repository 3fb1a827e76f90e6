#include "cli/validators.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "base/parse_double.h"

namespace tandem {
namespace {

template <typename Number>
std::optional<Number> parse(std::string_view text) {
  Number number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string describe_range(int64_t least, int64_t most) {
  return most == kMaxCount ? str_format("of at least {} (and at most {})", least, most)
                           : str_format("from {} to {}", least, most);
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (;;) {
    const size_t comma = text.find(',');
    parts.emplace_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

bool is_whole_number(std::string_view text, int64_t least, int64_t most) {
  const auto value = parse<int64_t>(text);
  return value && *value >= least && *value <= most;
}

CLI::Validator real(double least, double most, bool open) {
  const auto check = [=](const std::string& text) {
    const auto value = parse_double(text);
    if (value && std::isfinite(*value) && (open ? *value > least : *value >= least) && *value <= most) {
      return std::string();
    }
    const std::string lower = open ? str_format("above {}", least) : str_format("of at least {}", least);
    return str_format("\"{}\" is not a number {}{}", text, lower,
                      std::isinf(most) ? "" : str_format(" and at most {}", most));
  };
  return {check, str_format("{}{}{}", open ? ">" : ">=", least, std::isinf(most) ? "" : str_format(",<={}", most))};
}

}  // namespace

CLI::Validator whole_number(int64_t least, int64_t most) {
  const auto check = [=](const std::string& text) {
    if (is_whole_number(text, least, most)) return std::string();
    return str_format("\"{}\" is not a whole number {}", text, describe_range(least, most));
  };
  return {check, most == kMaxCount ? str_format(">={}", least) : str_format("{}..{}", least, most)};
}

CLI::Validator any_unsigned() {
  const auto check = [](const std::string& text) {
    if (parse<uint64_t>(text)) return std::string();
    return str_format("\"{}\" is not a whole number from 0 to {}", text, UINT64_MAX);
  };
  return {check, ">=0"};
}

CLI::Validator real_number(double least, double most) { return real(least, most, false); }
CLI::Validator real_number_above(double least, double most) { return real(least, most, true); }

CLI::Validator number_list(int64_t least, int64_t most) {
  const auto check = [=](const std::string& text) {
    for (const std::string& part : split(text)) {
      if (is_whole_number(part, least, most)) continue;
      return str_format("\"{}\" in the list is not a whole number {}", part, describe_range(least, most));
    }
    return std::string();
  };
  return {check, ""};
}

std::vector<int64_t> parse_number_list(const std::vector<std::string>& values) {
  std::vector<int64_t> numbers;
  for (const std::string& value : values) {
    for (const std::string& part : split(value)) numbers.push_back(parse<int64_t>(part).value_or(0));
  }
  return numbers;
}

CLI::Validator name_list() {
  const auto check = [](const std::string& text) {
    return std::ranges::count(split(text), "") == 0 ? std::string() : "an item of the list is empty";
  };
  return {check, ""};
}

std::vector<std::string> parse_name_list(const std::vector<std::string>& values) {
  std::vector<std::string> names;
  for (const std::string& value : values) {
    for (std::string& part : split(value)) names.push_back(std::move(part));
  }
  return names;
}

void refuse_empty_values(CLI::App& command, const std::vector<std::string>& may_be_empty) {
  const auto check = [](const std::string& text) { return text.empty() ? "the value is empty" : std::string(); };
  for (CLI::Option* option : command.get_options()) {
    const bool takes_none = option->get_items_expected_max() == 0;
    if (takes_none || std::ranges::count(may_be_empty, option->get_name()) > 0) continue;
    option->transform(CLI::Validator(check, ""));  // Transforms run before checks, so this message is shown.
  }
}

}  // namespace tandem
