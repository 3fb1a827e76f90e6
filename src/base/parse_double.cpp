#include "base/parse_double.h"

#include <locale.h>
#include <stdlib.h>

#include <string>

#include "base/ascii.h"

namespace tandem {
namespace {

size_t skip_digits(std::string_view text, size_t at) {
  while (at < text.size() && is_ascii_digit(text[at])) ++at;
  return at;
}

bool is_decimal(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  const size_t whole = skip_digits(text, 0);
  size_t end = whole, digits = whole;
  if (end < text.size() && text[end] == '.') {
    end = skip_digits(text, whole + 1);
    digits += end - (whole + 1);
  }
  if (digits == 0) return false;
  if (end < text.size() && (text[end] == 'e' || text[end] == 'E')) {
    const size_t first = end + 1 < text.size() && (text[end + 1] == '+' || text[end + 1] == '-') ? end + 2 : end + 1;
    end = skip_digits(text, first);
    if (end == first) return false;
  }
  return end == text.size();
}

}  // namespace

std::optional<double> parse_double(std::string_view text) {
  if (!is_decimal(text)) return std::nullopt;
  static const locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string terminated(text);
  return plain == nullptr ? ::strtod(terminated.c_str(), nullptr) : ::strtod_l(terminated.c_str(), nullptr, plain);
}

}  // namespace tandem
