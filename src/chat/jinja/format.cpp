// '%s' % x and '{}'.format(x).
#include "base/format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/literals.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/text_methods.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

constexpr int64_t kMaxWidth = 100'000;

struct Spec {
  MarkedText fill = MarkedText(" ", Origin::kTemplate);
  char align = 0;  // < > ^ = ; 0: the type's default.
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  bool thousands = false;
  int64_t width = 0;
  int64_t precision = -1;
  char type = 0;
};

// Digits at `at`, which moves past them; -1: too many.
int64_t read_number(std::string_view text, size_t& at) {
  int64_t number = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    number = std::min<int64_t>(number * 10 + (text[at++] - '0'), kMaxWidth + 1);
  }
  return number;
}

std::string with_commas(const std::string& digits) {
  const size_t end = std::min(digits.find_first_of(".e"), digits.size());
  std::string out = digits.substr(0, end);
  for (auto i = static_cast<std::ptrdiff_t>(end) - 3; i > 0; i -= 3) out.insert(static_cast<size_t>(i), 1, ',');
  return out + digits.substr(end);
}

Result<std::string> real_digits(double number, const Spec& spec) {
  char type = spec.type == 0 ? 'g' : spec.type;
  if (!std::isfinite(number)) return std::string(std::isnan(number) ? "nan" : "inf");
  if (spec.type == 0 && spec.precision < 0) return float_text(std::fabs(number));
  double shown = std::fabs(number);
  if (type == '%') {
    shown *= 100;
    type = 'f';
  }
  const std::string format = str_format("%{}.*{}", spec.alternate ? "#" : "", type);
  const int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
  const int size = std::snprintf(nullptr, 0, format.c_str(), precision, shown);
  if (size < 0) return invalid_argument("a number cannot be formatted");
  std::string digits(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(digits.data(), digits.size(), format.c_str(), precision, shown);
  digits.resize(static_cast<size_t>(size));
  if (spec.type == '%') digits += '%';
  return digits;
}

Result<std::string> integer_digits(int64_t number, const Spec& spec) {
  const uint64_t size = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  switch (spec.type) {
    case 'x': return str_format("{}{:x}", spec.alternate ? "0x" : "", size);
    case 'X': return str_format("{}{:X}", spec.alternate ? "0X" : "", size);
    case 'o': return str_format("{}{:o}", spec.alternate ? "0o" : "", size);
    case 'b': return str_format("{}{:b}", spec.alternate ? "0b" : "", size);
    default: return std::to_string(size);
  }
}

// Adds sign and padding to digits or a text.
Result<MarkedText> padded(Runtime& rt, const MarkedText& body, const MarkedText& sign, const Spec& spec, bool number) {
  const char align = spec.align != 0 ? spec.align : number ? (spec.zero ? '=' : '>') : '<';
  const MarkedText fill = spec.zero && spec.align == 0 ? MarkedText("0", Origin::kTemplate) : spec.fill;
  const auto size = static_cast<int64_t>(count_code_points(body.bytes()) + sign.size());
  MarkedText text = sign;
  if (align == '=' && spec.width > size) {
    TANDEM_ASSIGN(const MarkedText digits,
                  pad_text(rt, body, spec.width - static_cast<int64_t>(sign.size()), fill, Side::kRight));
    text.append(digits);
    return text;
  }
  text.append(body);
  if (spec.width <= size) return text;
  if (align != '^') return pad_text(rt, text, spec.width, fill, align == '<' ? Side::kLeft : Side::kRight);
  const int64_t left = (spec.width - size) / 2;
  TANDEM_ASSIGN(const MarkedText half, pad_text(rt, text, size + left, fill, Side::kRight));
  return pad_text(rt, half, spec.width, fill, Side::kLeft);
}

Result<MarkedText> formatted_number(Runtime& rt, const Value& value, const Spec& spec, bool as_real) {
  const bool negative = as_real ? std::signbit(value.as_real()) && !std::isnan(value.as_real()) : value.as_int() < 0;
  // Up to 309 digits before the point, and as many after it as requested.
  if (as_real) TANDEM_TRY(rt.step(60 + std::max<int64_t>(spec.precision, 0) / 4));
  TANDEM_ASSIGN(std::string digits,
                as_real ? real_digits(value.as_real(), spec) : integer_digits(value.as_int(), spec));
  if (spec.thousands) digits = with_commas(digits);
  const std::string_view sign = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  return padded(rt, MarkedText(std::move(digits), value.origin()), MarkedText(std::string(sign), value.origin()), spec,
                true);
}

bool is_real_type(char type) { return std::string_view("fFeEgG%").find(type) != std::string_view::npos; }

// The first `precision` characters.
MarkedText shortened(const MarkedText& text, int64_t precision) {
  const std::string_view bytes = text.bytes();
  if (precision < 0) return text;
  return text.part(bytes.substr(0, byte_offset(bytes, static_cast<size_t>(precision))));
}

Result<MarkedText> percent_item(Runtime& rt, const Value& value, Spec spec) {
  if (spec.type == 's' || spec.type == 'r' || spec.type == 'a') {
    TANDEM_ASSIGN(const MarkedText text, spec.type == 's' ? to_str(rt, value) : to_repr(rt, value));
    if (spec.align == 0) spec.align = '>';
    spec.zero = false;
    return padded(rt, shortened(text, spec.precision), {}, spec, false);
  }
  if (spec.type == 'c') {
    if (value.is_string() && value.length() == 1) return padded(rt, value.marked(), {}, spec, true);
    return invalid_argument("%c requires int or char");
  }
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_number()) {
    return invalid_argument("%{} format: a real number is required, not {}", spec.type, type_name(value));
  }
  if (is_real_type(spec.type)) return formatted_number(rt, value, spec, true);
  if (value.is(Kind::kFloat)) {
    const double real = value.as_real();
    if (!(std::fabs(real) < 9e18)) return unsupported("a number does not fit 64 bits");
    if (spec.type == 'x' || spec.type == 'X' || spec.type == 'o') {
      return invalid_argument("%{} format: an integer is required, not float", spec.type);
    }
    return formatted_number(rt, Value::integer(static_cast<int64_t>(real)).from(value.origin()), spec, false);
  }
  return formatted_number(rt, value, spec, false);
}

// [[fill]align][sign][#][0][width][,][.precision][type]
Result<Spec> parse_spec(const MarkedText& marked) {
  std::string_view text = marked.bytes();
  Spec spec;
  const std::string_view aligns = "<>^=";
  const size_t first = byte_offset(text, 1);
  if (first < text.size() && aligns.find(text[first]) != std::string_view::npos) {
    spec.fill = marked.part(text.substr(0, first));
    spec.align = text[first];
    text.remove_prefix(first + 1);
  } else if (!text.empty() && aligns.find(text[0]) != std::string_view::npos) {
    spec.align = text[0];
    text.remove_prefix(1);
  }
  size_t at = 0;
  const auto take = [&](char c) { return at < text.size() && text[at] == c ? (++at, true) : false; };
  if (at < text.size() && std::string_view("+- ").find(text[at]) != std::string_view::npos) spec.sign = text[at++];
  spec.alternate = take('#');
  spec.zero = take('0');
  spec.width = read_number(text, at);
  spec.thousands = take(',');
  if (take('.')) spec.precision = read_number(text, at);
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size() || spec.width > kMaxWidth || spec.precision > kMaxWidth) {
    return invalid_argument("invalid format specifier '{}'", text);
  }
  return spec;
}

Result<MarkedText> braces_item(Runtime& rt, const Value& value, const MarkedText& text) {
  if (text.empty()) return to_str(rt, value);
  TANDEM_ASSIGN(Spec spec, parse_spec(text));
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_number() && !(value.is(Kind::kBool) && (spec.type == 0 || spec.type == 's'))) {
    const bool real = value.is(Kind::kFloat) || is_real_type(spec.type);
    if (spec.type != 0 && !real && std::string_view("dxXobn").find(spec.type) == std::string_view::npos) {
      return invalid_argument("unknown format code '{}' for a number", spec.type);
    }
    if (real && spec.type != 0 && !is_real_type(spec.type)) {
      return invalid_argument("unknown format code '{}' for a float", spec.type);
    }
    return formatted_number(rt, value, spec, real);
  }
  if (!value.is_string() && !value.is(Kind::kBool)) {
    return invalid_argument("unsupported format string passed to {}", type_name(value));
  }
  if (spec.type != 0 && spec.type != 's') return invalid_argument("unknown format code '{}' for a str", spec.type);
  TANDEM_ASSIGN(const MarkedText shown, to_str(rt, value));
  return padded(rt, shortened(shown, spec.precision), {}, spec, false);
}

// name.attribute[key] of a replacement field.
Result<Value> find_field(Runtime& rt, std::string_view field, const Args& args, int64_t& next) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view name = field.substr(0, end);
  Value value;
  std::optional<int64_t> index = parse_int(name, 10);
  if (name.empty()) index = next++;
  if (index) {
    if (*index < 0 || *index >= static_cast<int64_t>(args.positional.size())) {
      return invalid_argument("there is no argument {} to format", *index);
    }
    value = args.positional[static_cast<size_t>(*index)];
  } else {
    const auto named = std::ranges::find_if(args.named, [&](const auto& n) { return n.first == name; });
    if (named == args.named.end()) return invalid_argument("there is no argument '{}' to format", name);
    value = named->second;
  }
  field.remove_prefix(end);
  while (!field.empty()) {
    const bool item = field[0] == '[';
    const size_t stop = item ? field.find(']') : std::min(field.find_first_of(".[", 1), field.size());
    if (stop == std::string_view::npos) return invalid_argument("a field to format has no ']'");
    const std::string_view part = field.substr(1, stop - 1);
    const auto number = parse_int(part, 10);
    if (item) {
      TANDEM_ASSIGN(value, get_item(rt, value, number ? Value::integer(*number) : rt.string(std::string(part))));
    } else {
      TANDEM_ASSIGN(value, get_attribute(rt, value, part));
    }
    field.remove_prefix(item ? stop + 1 : stop);
  }
  return value;
}

void read_percent_flags(std::string_view format, size_t& at, Spec& spec) {
  for (; at < format.size() && std::string_view("-+ #0").find(format[at]) != std::string_view::npos; ++at) {
    if (format[at] == '-') spec.align = '<';
    if (format[at] == '+') spec.sign = '+';
    if (format[at] == ' ' && spec.sign != '+') spec.sign = ' ';
    if (format[at] == '#') spec.alternate = true;
    if (format[at] == '0') spec.zero = true;
  }
}

}  // namespace

Result<MarkedText> format_percent(Runtime& rt, const MarkedText& marked, const Value& values) {
  const std::string_view format = marked.bytes();
  TANDEM_TRY(rt.scan(format.size()));
  MarkedText out;
  size_t next = 0;
  const bool many = values.is(Kind::kTuple);
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      const size_t end = std::min(format.find('%', at), format.size());
      out.append_part(marked, format.substr(at, end - at));
      at = end;
      continue;
    }
    TANDEM_TRY(rt.step());
    TANDEM_TRY(rt.grow(out, 0));
    Spec spec;
    Value named;
    bool has_name = false;
    if (++at < format.size() && format[at] == '(') {
      const size_t end = format.find(')', at);
      if (end == std::string_view::npos) return invalid_argument("incomplete format key");
      if (!values.is_dict()) return invalid_argument("format requires a mapping");
      const std::string_view key = format.substr(at + 1, end - at - 1);
      const Value* value = values.dict().find(key);
      if (value == nullptr) return invalid_argument("there is no '{}' to format", key);
      named = *value;
      has_name = true;
      at = end + 1;
    }
    read_percent_flags(format, at, spec);
    spec.width = read_number(format, at);
    if (at < format.size() && format[at] == '.') spec.precision = read_number(format, ++at);
    if (spec.width > kMaxWidth || spec.precision > kMaxWidth) return invalid_argument("a format is too wide");
    while (at < format.size() && std::string_view("hlL").find(format[at]) != std::string_view::npos) ++at;
    if (at >= format.size()) return invalid_argument("incomplete format");
    spec.type = format[at++];
    if (spec.type == '%') {
      out.append_part(marked, format.substr(at - 1, 1));
      continue;
    }
    if (std::string_view("sradiufFeEgGxXoc").find(spec.type) == std::string_view::npos) {
      return invalid_argument("unsupported format character");
    }
    if (!has_name) {
      if (next >= (many ? values.items().size() : 1)) return invalid_argument("not enough arguments for format string");
      named = many ? values.items()[next] : values;
      ++next;
    }
    TANDEM_ASSIGN(const MarkedText item, percent_item(rt, named, spec));
    out.append(item);
  }
  const bool mapping = values.is_dict() || values.is(Kind::kList) || values.is_undefined();  // As Python sees it.
  if (!mapping && next < (many ? values.items().size() : 1)) {
    return invalid_argument("not all arguments converted during string formatting");
  }
  return out;
}

Result<MarkedText> format_braces(Runtime& rt, const MarkedText& marked, const Args& args) {
  const std::string_view format = marked.bytes();
  TANDEM_TRY(rt.scan(format.size()));
  MarkedText out;
  int64_t next = 0;
  for (size_t at = 0; at < format.size();) {
    const char c = format[at];
    if ((c == '{' || c == '}') && at + 1 < format.size() && format[at + 1] == c) {
      out.append_part(marked, format.substr(at, 1));
      at += 2;
      continue;
    }
    if (c == '}') return invalid_argument("Single '}}' encountered in format string");
    if (c != '{') {
      const size_t end = std::min(format.find_first_of("{}", at), format.size());
      out.append_part(marked, format.substr(at, end - at));
      at = end;
      continue;
    }
    TANDEM_TRY(rt.step());
    TANDEM_TRY(rt.grow(out, 0));
    const size_t end = format.find('}', at);
    if (end == std::string_view::npos) return invalid_argument("expected '}}' before end of string");
    std::string_view field = format.substr(at + 1, end - at - 1);
    if (field.find('{') != std::string_view::npos) return unsupported("fields inside of fields to format");
    const size_t colon = field.find(':');
    const std::string_view spec = colon == std::string_view::npos ? field.substr(0, 0) : field.substr(colon + 1);
    field = field.substr(0, colon);
    char conversion = 0;
    if (const size_t mark = field.find('!'); mark != std::string_view::npos) {
      conversion = mark + 2 == field.size() ? field[mark + 1] : '?';
      if (conversion != 'r' && conversion != 's') return invalid_argument("unknown conversion in a format string");
      field = field.substr(0, mark);
    }
    TANDEM_ASSIGN(Value value, find_field(rt, field, args, next));
    if (conversion != 0) {
      TANDEM_ASSIGN(MarkedText text, conversion == 'r' ? to_repr(rt, value) : to_str(rt, value));
      value = rt.string(std::move(text));
    }
    TANDEM_ASSIGN(const MarkedText item, braces_item(rt, value, marked.part(spec)));
    out.append(item);
    at = end + 1;
  }
  return out;
}

}  // namespace tandem::jinja
