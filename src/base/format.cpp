#include "base/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tandem {
namespace {

using Kind = FormatValue::Kind;

// Holds a double in fixed notation with the highest precision that a placeholder can ask for.
constexpr size_t kNumberSpace = 320 + 4096 + 8;

// The shortest digits that read back as the same number: fixed notation from 1e-4 up to 1e16, otherwise an exponent.
template <typename Float>
std::string shortest(Float value) {
  char space[64];
  const auto scientific = std::to_chars(space, std::end(space), value, std::chars_format::scientific);
  const std::string_view text(space, static_cast<size_t>(scientific.ptr - space));
  int exponent = 0;
  const size_t e = text.find('e');
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed = std::to_chars(space, std::end(space), value, std::chars_format::fixed);
  return {space, fixed.ptr};
}

template <typename Float>
std::string float_digits(Float value, const FormatSpec& spec) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  if (spec.type == 0 && spec.precision < 0) return shortest(value);
  const auto notation = spec.type == 'f' ? std::chars_format::fixed : std::chars_format::general;
  std::string digits(kNumberSpace, '\0');
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), static_cast<double>(value), notation,
                                 spec.precision < 0 ? 6 : spec.precision);
  digits.resize(static_cast<size_t>(end.ptr - digits.data()));
  return digits;
}

std::string integer_digits(uint64_t value, const FormatSpec& spec) {
  char space[64];
  const char type = spec.type;
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const auto end = std::to_chars(space, std::end(space), value, base);
  std::string digits(space, end.ptr);
  if (spec.type == 'X') {
    std::ranges::transform(digits, digits.begin(), [](char c) { return c >= 'a' ? static_cast<char>(c - 32) : c; });
  }
  return digits;
}

// A sign and what follows it, or text without a sign.
struct Parts {
  std::string sign;
  std::string digits;
  bool is_number = false;
};

Parts number_parts(bool is_negative, std::string digits, const FormatSpec& spec) {
  return {is_negative ? "-" : spec.plus ? "+" : "", std::move(digits), true};
}

Parts parts_of(const FormatValue& value, const FormatSpec& spec) {
  switch (value.kind()) {
    case Kind::kBool: return {"", value.as_unsigned() != 0 ? "true" : "false"};
    case Kind::kChar: return {"", std::string(1, value.as_char())};
    case Kind::kSigned: {
      const int64_t number = value.as_signed();
      const uint64_t magnitude =
          number < 0 ? uint64_t{0} - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
      return number_parts(number < 0, integer_digits(magnitude, spec), spec);
    }
    case Kind::kUnsigned: return number_parts(false, integer_digits(value.as_unsigned(), spec), spec);
    case Kind::kFloat: {
      const float number = value.as_float();
      return number_parts(std::signbit(number), float_digits(std::fabs(number), spec), spec);
    }
    case Kind::kDouble: {
      const double number = value.as_double();
      return number_parts(std::signbit(number), float_digits(std::fabs(number), spec), spec);
    }
    case Kind::kText: {
      const size_t most = spec.precision < 0 ? std::string_view::npos : static_cast<size_t>(spec.precision);
      return {"", std::string(value.as_text().substr(0, most))};
    }
  }
  return {};
}

// Columns are counted in characters, not bytes.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

void append_value(std::string& out, const FormatValue& value, const FormatSpec& spec) {
  const Parts parts = parts_of(value, spec);
  const size_t width = parts.sign.size() + width_of(parts.digits);
  const size_t padding = static_cast<size_t>(spec.width) > width ? static_cast<size_t>(spec.width) - width : 0;
  if (parts.is_number && spec.zeros && spec.align == 0) {
    out += parts.sign;
    out.append(padding, '0');
    out += parts.digits;
    return;
  }
  const char align = spec.align != 0 ? spec.align : parts.is_number ? '>' : '<';
  const size_t before = align == '>' ? padding : align == '^' ? padding / 2 : 0;
  out.append(before, spec.fill);
  out += parts.sign;
  out += parts.digits;
  out.append(padding - before, spec.fill);
}

int to_count(const FormatValue& value) {
  const int64_t number =
      value.kind() == Kind::kUnsigned ? static_cast<int64_t>(value.as_unsigned()) : value.as_signed();
  return static_cast<int>(std::clamp<int64_t>(number, 0, 4096));
}

}  // namespace

void append_values(std::string& out, std::string_view format, std::span<const FormatValue> values) {
  size_t next = 0;
  for (size_t at = 0; at < format.size();) {
    const size_t brace = std::min(format.find_first_of("{}", at), format.size());
    out += format.substr(at, brace - at);
    at = brace;
    if (at == format.size()) return;
    if (format.substr(at, 2) == "{{" || format.substr(at, 2) == "}}") {
      out += format[at];
      at += 2;
      continue;
    }
    FormatSpec spec;
    size_t end = at + 1;
    const bool is_placeholder = format[at] == '{' && format_internal::read_spec(format, end, spec);
    const size_t wanted = size_t{1} + spec.width_is_argument + spec.precision_is_argument;
    if (!is_placeholder || values.size() - next < wanted) {
      out += format[at++];
      continue;
    }
    const FormatValue& value = values[next++];
    if (spec.width_is_argument) spec.width = to_count(values[next++]);
    if (spec.precision_is_argument) spec.precision = to_count(values[next++]);
    append_value(out, value, spec);
    at = end;
  }
}

}  // namespace tandem
