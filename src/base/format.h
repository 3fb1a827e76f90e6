// Text from a format string: the part of std::format that tandem uses, for compilers whose library has none yet.
//
//   str_format("{} of {:.1f} MB", count, megabytes)
//
// A placeholder is {} or {:[[fill]align][+][0][width][.precision][type]}. Types are d, x, X, o, b, f, g and s; width
// and precision may be {}, which takes the next argument. {{ and }} stand for braces. Numbers look as in std::format:
// without a type, a float is the shortest text that reads back as the same number. The format string is checked against
// its arguments when it is compiled.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace tandem {

// One value to be formatted. It refers to text, which must outlive it.
class FormatValue {
 public:
  enum class Kind : uint8_t { kBool, kChar, kSigned, kUnsigned, kFloat, kDouble, kText };

  FormatValue(bool value) : kind_(Kind::kBool), unsigned_(value) {}  // NOLINT: implicit, as all below.
  FormatValue(char value) : kind_(Kind::kChar), char_(value) {}      // NOLINT
  template <std::signed_integral T>
  FormatValue(T value) : kind_(Kind::kSigned), signed_(value) {}  // NOLINT
  template <std::unsigned_integral T>
  FormatValue(T value) : kind_(Kind::kUnsigned), unsigned_(value) {}           // NOLINT
  FormatValue(float value) : kind_(Kind::kFloat), float_(value) {}             // NOLINT
  FormatValue(double value) : kind_(Kind::kDouble), double_(value) {}          // NOLINT
  FormatValue(std::string_view value) : kind_(Kind::kText), text_(value) {}    // NOLINT
  FormatValue(const std::string& value) : kind_(Kind::kText), text_(value) {}  // NOLINT
  FormatValue(const char* value) : kind_(Kind::kText), text_(value) {}         // NOLINT

  Kind kind() const { return kind_; }
  char as_char() const { return char_; }
  int64_t as_signed() const { return signed_; }
  uint64_t as_unsigned() const { return unsigned_; }
  float as_float() const { return float_; }
  double as_double() const { return double_; }
  std::string_view as_text() const { return text_; }

 private:
  Kind kind_;
  union {
    char char_;
    int64_t signed_;
    uint64_t unsigned_;
    float float_;
    double double_;
    std::string_view text_;
  };
};

// A parsed placeholder.
struct FormatSpec {
  char fill = ' ';
  char align = 0;  // '<', '>', '^', or 0 for the type's own.
  bool plus = false;
  bool zeros = false;
  int width = 0;
  int precision = -1;
  bool width_is_argument = false;
  bool precision_is_argument = false;
  char type = 0;
};

namespace format_internal {

constexpr bool is_align(char c) { return c == '<' || c == '>' || c == '^'; }

// Reads digits, or {}, at `at`.
constexpr bool read_number(std::string_view text, size_t& at, int& number, bool& is_argument) {
  if (text.substr(at).starts_with("{}")) {
    is_argument = true;
    at += 2;
    return true;
  }
  bool any = false;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, any = true) {
    number = number * 10 + (text[at] - '0');
    if (number > 4096) return false;
  }
  return any;
}

// Reads from after '{' up to '}' and leaves `at` after it. False: not a placeholder.
constexpr bool read_spec(std::string_view text, size_t& at, FormatSpec& spec) {
  if (at < text.size() && text[at] == ':') {
    ++at;
    if (at + 1 < text.size() && is_align(text[at + 1])) {
      spec.fill = text[at];
      spec.align = text[at + 1];
      at += 2;
    } else if (at < text.size() && is_align(text[at])) {
      spec.align = text[at++];
    }
    if (at < text.size() && text[at] == '+') spec.plus = ++at != 0;
    if (at < text.size() && text[at] == '0') spec.zeros = ++at != 0;
    read_number(text, at, spec.width, spec.width_is_argument);
    if (at < text.size() && text[at] == '.') {
      spec.precision = 0;
      if (!read_number(text, ++at, spec.precision, spec.precision_is_argument)) return false;
    }
    if (at < text.size() && text[at] != '}') spec.type = text[at++];
  }
  return at < text.size() && text[at++] == '}';
}

enum class Fits : uint8_t { kText, kInteger, kFloat };
template <typename T>
constexpr Fits fits() {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_floating_point_v<Plain>) return Fits::kFloat;
  if constexpr (std::is_integral_v<Plain> && !std::is_same_v<Plain, bool> && !std::is_same_v<Plain, char>) {
    return Fits::kInteger;
  }
  return Fits::kText;
}
constexpr bool type_fits(char type, Fits fits) {
  if (type == 0) return true;
  if (type == 'd' || type == 'x' || type == 'X' || type == 'o' || type == 'b') return fits == Fits::kInteger;
  if (type == 'f' || type == 'g') return fits == Fits::kFloat;
  return type == 's' && fits == Fits::kText;
}

// Whether the text has a placeholder for each argument, of a type that fits.
constexpr bool is_valid(std::string_view text, std::span<const Fits> arguments) {
  size_t next = 0;
  const auto takes_integer = [&] { return next < arguments.size() && arguments[next++] == Fits::kInteger; };
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c != '{' && c != '}') continue;
    if (at < text.size() && text[at] == c) {
      ++at;
      continue;
    }
    FormatSpec spec;
    if (c == '}' || !read_spec(text, at, spec) || next >= arguments.size()) return false;
    const Fits value = arguments[next++];
    if (!type_fits(spec.type, value) || (spec.precision >= 0 && value == Fits::kInteger)) return false;
    if (spec.width_is_argument && !takes_integer()) return false;
    if (spec.precision_is_argument && !takes_integer()) return false;
  }
  return next == arguments.size();
}

// Never defined: its name is what the compiler shows.
void format_string_does_not_fit_its_arguments();

}  // namespace format_internal

template <typename... Args>
class BasicFormatString {
 public:
  template <typename Text>
  requires std::convertible_to<const Text&, std::string_view>
  consteval BasicFormatString(const Text& text) : text_(text) {  // NOLINT: implicit on purpose.
    constexpr format_internal::Fits kArguments[] = {format_internal::fits<Args>()..., format_internal::Fits::kText};
    if (!format_internal::is_valid(text_, std::span(kArguments, sizeof...(Args)))) {
      format_internal::format_string_does_not_fit_its_arguments();
    }
  }
  std::string_view text() const { return text_; }

 private:
  std::string_view text_;
};
template <typename... Args>
using FormatString = BasicFormatString<std::type_identity_t<Args>...>;

// Without the check: a placeholder without a fitting value is left in the text as it is.
void append_values(std::string& out, std::string_view format, std::span<const FormatValue> values);

template <typename... Args>
void append_format(std::string& out, FormatString<Args...> format, const Args&... args) {
  const FormatValue values[] = {FormatValue(args)..., FormatValue(0)};
  append_values(out, format.text(), std::span(values, sizeof...(Args)));
}

template <typename... Args>
[[nodiscard]] std::string str_format(FormatString<Args...> format, const Args&... args) {
  std::string out;
  append_format(out, format, args...);
  return out;
}

// The items of a range, each as {} shows it.
template <typename Range>
[[nodiscard]] std::string str_join(const Range& range, std::string_view separator) {
  std::string out;
  bool is_first = true;
  for (const auto& item : range) {
    if (!is_first) out += separator;
    is_first = false;
    const FormatValue value(item);
    append_values(out, "{}", {&value, 1});
  }
  return out;
}

}  // namespace tandem
