#include "chat/jinja/literals.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/ascii.h"
#include "base/error.h"
#include "base/format.h"
#include "base/parse_double.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

int digit_value(char c) {
  if (is_ascii_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// Digits of a base, with single underscores between them; 0: none.
size_t scan_digits(std::string_view text, int base) {
  size_t size = 0;
  while (size < text.size()) {
    const size_t at = size > 0 && text[size] == '_' ? size + 1 : size;
    if (at >= text.size() || digit_value(text[at]) >= base) break;
    size = at + 1;
  }
  return size;
}

std::string without_underscores(std::string_view text) {
  std::string digits(text);
  std::erase(digits, '_');
  return digits;
}

// The fraction and exponent after the digits; 0: not a float.
size_t scan_float_tail(std::string_view text) {
  size_t size = 0;
  if (text.starts_with('.')) {
    const size_t digits = scan_digits(text.substr(1), 10);
    if (digits > 0) size = 1 + digits;
  }
  if (size < text.size() && (text[size] | 0x20) == 'e') {
    size_t at = size + 1;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    const size_t digits = scan_digits(text.substr(at), 10);
    if (digits > 0) size = at + digits;
  }
  return size;
}

Value integer_of(std::string_view digits, int base) {
  int64_t number = 0;
  const std::string plain = without_underscores(digits);
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number, base);
  return error == std::errc() && end == plain.data() + plain.size() ? Value::integer(number) : Value();
}

}  // namespace

size_t scan_name(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const char c = text[size];
    if (static_cast<uint8_t>(c) < 0x80) {
      if (!(std::isalpha(static_cast<uint8_t>(c)) || c == '_' || (size > 0 && is_ascii_digit(c)))) break;
      ++size;
    } else {
      const size_t next = byte_offset(text.substr(size), 1);
      if (!is_alpha(to_code_points(text.substr(size, next))[0])) break;
      size += next;
    }
  }
  return size;
}

NumberLiteral scan_number(std::string_view text, bool after_dot) {
  if (text.empty() || !is_ascii_digit(text[0])) return {};
  if (!after_dot) {
    const size_t digits = scan_digits(text, 10);
    if (const size_t tail = scan_float_tail(text.substr(digits)); tail > 0) {
      const auto number = parse_float(without_underscores(text.substr(0, digits + tail)));
      return {digits + tail, number ? Value::real(*number) : Value()};
    }
  }
  if (text[0] == '0' && text.size() > 1) {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (base != 0) {
      const bool underscore = text.size() > 2 && text[2] == '_';
      const size_t digits = scan_digits(text.substr(underscore ? 3 : 2), base);
      if (digits > 0) {
        const size_t start = underscore ? 3 : 2;
        return {start + digits, integer_of(text.substr(start, digits), base)};
      }
    }
    // 0 and 00 are numbers, 012 is not.
    size_t zeros = 1;
    while (zeros < text.size() && text[zeros] == '0') ++zeros;
    return {zeros, Value::integer(0)};
  }
  const size_t digits = scan_digits(text, 10);
  return {digits, integer_of(text.substr(0, digits), 10)};
}

Result<std::string> unescape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char c = text[++i];
    const std::string_view simple = "n\nt\tr\ra\ab\bf\fv\v\\\\''\"\"";
    bool done = false;
    for (size_t k = 0; k < simple.size() && !done; k += 2) {
      if (simple[k] == c) {
        out.push_back(simple[k + 1]);
        done = true;
      }
    }
    if (done || c == '\n') continue;
    const size_t wanted = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (wanted > 0) {
      const std::string_view digits = text.substr(i + 1, wanted);
      char32_t code = 0;
      for (const char digit : digits)
        code = digit_value(digit) < 16 ? code * 16 + static_cast<char32_t>(digit_value(digit)) : 0xffffffff;
      if (digits.size() < wanted || std::ranges::any_of(digits, [](char d) { return digit_value(d) > 15; })) {
        return corrupt("a string has an unfinished \\{} escape", c);
      }
      if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        return corrupt("a string has an escape that is no character");
      append_code_point(out, code);
      i += wanted;
    } else if (c >= '0' && c <= '7') {
      char32_t code = 0;
      size_t count = 0;
      for (; count < 3 && i + count < text.size() && text[i + count] >= '0' && text[i + count] <= '7'; ++count) {
        code = code * 8 + static_cast<char32_t>(text[i + count] - '0');
      }
      append_code_point(out, code);
      i += count - 1;
    } else if (c == 'N') {
      return unsupported("\\N escapes are not supported; write the character itself");
    } else {
      out.push_back('\\');
      out.push_back(c);
    }
  }
  return out;
}

std::string printable_start(std::string_view text) {
  const std::u32string first = to_code_points(text.substr(0, byte_offset(text, 1)));
  if (first.empty()) return "''";
  if (is_printable(first[0])) return str_format("'{}'", to_utf8(first));
  return str_format("U+{:04X}", static_cast<uint32_t>(first[0]));
}

std::optional<int64_t> parse_int(std::string_view text, int base) {
  text = strip(text, nullptr, true, true);
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  if (text.size() > 1 && text[0] == '0') {
    const char kind = static_cast<char>(text[1] | 0x20);
    const int prefix = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      text.remove_prefix(2);
      if (text.starts_with('_')) text.remove_prefix(1);
    } else if (base == 0 && std::ranges::any_of(text, [](char c) { return c != '0' && c != '_'; })) {
      return std::nullopt;
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || text.empty() || scan_digits(text, base) != text.size()) return std::nullopt;
  int64_t number = 0;
  const std::string digits = str_format("{}{}", negative ? "-" : "", without_underscores(text));
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, nullptr, true, true);
  bool negative = false;
  if (text.starts_with('-') || text.starts_with('+')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const auto sign = [&](double x) { return std::optional(negative ? -x : x); };
  if (lower == "inf" || lower == "infinity") return sign(std::numeric_limits<double>::infinity());
  if (lower == "nan") return sign(std::numeric_limits<double>::quiet_NaN());
  for (size_t i = 0; i < lower.size(); ++i) {
    if (lower[i] == '_' &&
        (i == 0 || i + 1 == lower.size() || !is_ascii_digit(lower[i - 1]) || !is_ascii_digit(lower[i + 1]))) {
      return std::nullopt;
    }
  }
  std::erase(lower, '_');
  if (lower.empty() || (!is_ascii_digit(lower[0]) && lower[0] != '.')) return std::nullopt;
  const auto number = parse_double(lower);
  if (!number) return std::nullopt;
  return sign(*number);
}

}  // namespace tandem::jinja
