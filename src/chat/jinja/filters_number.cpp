#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/literals.h"

namespace tandem::jinja {
namespace {

bool fits(double number) { return number >= -9223372036854775808.0 && number < 9223372036854775808.0; }

Result<Value> to_int(Runtime&, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("int", args, {"default", "base"}, 0));
  TANDEM_ASSIGN(const int64_t base, bound.integer(1, 10));
  const Value fallback = bound.has(0) ? bound[0] : Value::integer(0);
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_integral()) return Value::integer(value.as_int()).from(value.origin());
  double number = 0;
  if (value.is_string()) {
    if (base < 0 || base > 36) return fallback;
    if (const auto parsed = parse_int(value.text(), static_cast<int>(base)))
      return Value::integer(*parsed).from(value.origin());
    const auto real = parse_float(value.text());
    if (!real || !std::isfinite(*real)) return fallback;
    number = *real;
  } else if (value.is(Kind::kFloat)) {
    number = value.as_real();
    if (std::isnan(number)) return fallback;
    if (std::isinf(number)) return invalid_argument("cannot convert float infinity to integer");
  } else {
    return fallback;
  }
  if (!fits(number)) return unsupported("a number does not fit 64 bits");
  return Value::integer(static_cast<int64_t>(number)).from(value.origin());
}

Result<Value> to_float(Runtime&, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("float", args, {"default"}, 0));
  const Value fallback = bound.has(0) ? bound[0] : Value::real(0.0);
  if (value.is_undefined()) return undefined_error(value);
  if (value.is_number()) return Value::real(value.as_real()).from(value.origin());
  if (!value.is_string()) return fallback;
  const auto number = parse_float(value.text());
  return number ? Value::real(*number).from(value.origin()) : fallback;
}

Result<Value> absolute(Runtime&, const Value& value, Args& args) {
  TANDEM_TRY(bind("abs", args, {}, 0).status());
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_number()) return invalid_argument("bad operand type for abs(): '{}'", type_name(value));
  if (value.is(Kind::kFloat)) return Value::real(std::fabs(value.as_real())).from(value.origin());
  if (value.as_int() == std::numeric_limits<int64_t>::min()) return unsupported("a number does not fit 64 bits");
  return Value::integer(value.as_int() < 0 ? -value.as_int() : value.as_int()).from(value.origin());
}

// Writing out a number of 300 digits and reading it again takes some 20 microseconds.
constexpr int64_t kStepsPerExactNumber = 400;

// Rounds to decimal digits; from the exact binary value, as Python does.
double round_to(double number, int64_t digits) {
  if (!std::isfinite(number) || digits > 300) return number;
  if (digits < 0) {
    if (digits < -300) return 0.0;
    const double scale = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(number / scale) * scale;
  }
  const std::string text = str_format("{:.{}f}", number, static_cast<int>(digits));
  return parse_float(text).value_or(number);
}

Result<Value> round(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("round", args, {"precision", "method"}, 0));
  TANDEM_ASSIGN(const int64_t digits, bound.integer(0, 0));
  TANDEM_ASSIGN(const std::string method, bound.text(1, "common"));
  if (value.is_undefined()) return undefined_error(value);
  if (method != "common" && method != "ceil" && method != "floor") {
    return invalid_argument("method must be common, ceil or floor");
  }
  if (!value.is_number()) return invalid_argument("type {} cannot be rounded", type_name(value));
  TANDEM_TRY(rt.step(kStepsPerExactNumber));
  if (method == "common") {
    if (!value.is_integral()) return Value::real(round_to(value.as_real(), digits)).from(value.origin());
    if (digits >= 0) return Value::integer(value.as_int()).from(value.origin());
    return Value::integer(static_cast<int64_t>(round_to(value.as_real(), digits))).from(value.origin());
  }
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = value.as_real() * scale;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale).from(value.origin());
}

Result<Value> fallback_value(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("default", args, {"default_value", "boolean"}, 0));
  if (!value.is_undefined() && !(bound.flag(1, false) && !truth(value))) return value;
  return bound.has(0) ? bound[0] : rt.string(MarkedText());
}

}  // namespace

std::span<const NamedFilter> number_filters() {
  static constexpr NamedFilter kFilters[] = {
      {"int", to_int},  {"float", to_float},         {"abs", absolute},
      {"round", round}, {"default", fallback_value}, {"d", fallback_value},
  };
  return kFilters;
}

}  // namespace tandem::jinja
