#include "chat/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/find_text.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

Error too_large() { return unsupported("a number does not fit 64 bits"); }

Error wrong_types(Op op, const Value& left, const Value& right) {
  return invalid_argument("unsupported operand type(s) for {}: '{}' and '{}'", op_text(op), type_name(left),
                          type_name(right));
}

Result<Value> power(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return invalid_argument("0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return too_large();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return too_large();
  }
  return Value::integer(result);
}

Result<Value> integers(Op op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case Op::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case Op::kSub:
      if (__builtin_sub_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case Op::kMul:
      if (__builtin_mul_overflow(a, b, &result)) return too_large();
      return Value::integer(result);
    case Op::kDiv:
      if (b == 0) return invalid_argument("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) return invalid_argument("integer division or modulo by zero");
      if (b == -1) {  // The smallest integer divided by -1 overflows.
        if (op == Op::kMod) return Value::integer(0);
        return a == std::numeric_limits<int64_t>::min() ? Result<Value>(too_large()) : Value::integer(-a);
      }
      const bool down = a % b != 0 && ((a < 0) != (b < 0));
      return Value::integer(op == Op::kFloorDiv ? a / b - (down ? 1 : 0) : a % b + (down ? b : 0));
    }
    case Op::kPow: return power(a, b);
    default: return internal_error("no such operator");
  }
}

Result<Value> reals(Op op, double a, double b) {
  switch (op) {
    case Op::kAdd: return Value::real(a + b);
    case Op::kSub: return Value::real(a - b);
    case Op::kMul: return Value::real(a * b);
    case Op::kDiv:
      if (b == 0) return invalid_argument("float division by zero");
      return Value::real(a / b);
    case Op::kFloorDiv:
    case Op::kMod: {
      if (b == 0) return invalid_argument("float modulo or floor division by zero");
      double rest = std::fmod(a, b);
      if (rest != 0 && ((rest < 0) != (b < 0))) rest += b;
      if (op == Op::kMod) return Value::real(rest == 0 ? std::copysign(0.0, b) : rest);
      const double quotient = (a - rest) / b;
      double floor = std::floor(quotient);
      if (quotient - floor > 0.5) floor += 1;
      return Value::real(floor);
    }
    case Op::kPow: {
      if (a == 0 && b < 0) return invalid_argument("0.0 cannot be raised to a negative power");
      if (a < 0 && std::floor(b) != b) return unsupported("a negative number to the power of a fraction is complex");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) return too_large();
      return Value::real(result);
    }
    default: return internal_error("no such operator");
  }
}

Result<Value> repeat(Runtime& rt, const Value& value, int64_t count) {
  const auto times = static_cast<size_t>(std::max<int64_t>(count, 0));
  if (value.is_string()) {
    if (value.text().empty()) return rt.string(MarkedText());
    TANDEM_TRY(rt.reserve_memory(times, value.marked().memory()));
    MarkedText text;
    for (size_t i = 0; i < times; ++i) text.append(value.marked());
    return rt.string(std::move(text), value.is_markup());
  }
  std::vector<Value> items;
  if (!value.items().empty()) {
    TANDEM_TRY(rt.reserve_memory(times, value.items().size() * sizeof(Value)));
    for (size_t i = 0; i < times; ++i) items.insert(items.end(), value.items().begin(), value.items().end());
  }
  return value.is(Kind::kList) ? rt.list(std::move(items)) : rt.tuple(std::move(items));
}

Result<Value> add_strings(Runtime& rt, const Value& left, const Value& right) {
  const bool markup = left.is_markup() || right.is_markup();
  TANDEM_TRY(rt.reserve_memory(left.text().size() + right.text().size()));
  MarkedText sum;
  for (const Value* part : {&left, &right}) {
    sum.append(markup && !part->is_markup() ? escape_html(part->marked()) : part->marked());
  }
  return rt.string(std::move(sum), markup);
}

Result<Value> add_lists(Runtime& rt, const Value& left, const Value& right) {
  TANDEM_TRY(rt.reserve_memory(left.items().size() + right.items().size(), sizeof(Value)));
  std::vector<Value> items = left.items();
  items.insert(items.end(), right.items().begin(), right.items().end());
  return left.is(Kind::kList) ? rt.list(std::move(items)) : rt.tuple(std::move(items));
}

template <typename T>
int sign_of(T a, T b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

}  // namespace

MarkedText escape_html(const MarkedText& text) {
  MarkedText out;
  OriginCursor cursor(text);
  for (size_t i = 0; i < text.size(); ++i) {
    const char& c = text.bytes()[i];
    const Origin origin = cursor.at(i);
    switch (c) {
      case '&': out.append("&amp;", origin); break;
      case '<': out.append("&lt;", origin); break;
      case '>': out.append("&gt;", origin); break;
      case '\'': out.append("&#39;", origin); break;
      case '"': out.append("&#34;", origin); break;
      default: out.append({&c, 1}, origin);
    }
  }
  return out;
}

Result<Value> binary(Runtime& rt, Op op, const Value& left, const Value& right) {
  if (left.is_undefined()) return undefined_error(left);
  if (op == Op::kMod && left.is_string()) {
    TANDEM_ASSIGN(MarkedText text, format_percent(rt, left.marked(), right));
    return rt.string(std::move(text));
  }
  if (right.is_undefined()) return undefined_error(right);
  if (left.is_number() && right.is_number()) {
    const bool whole = left.is_integral() && right.is_integral();
    TANDEM_ASSIGN(const Value number,
                  whole ? integers(op, left.as_int(), right.as_int()) : reals(op, left.as_real(), right.as_real()));
    return number.from(stricter(left.origin(), right.origin()));
  }
  if (op == Op::kAdd) {
    if (left.is_string() && right.is_string()) return add_strings(rt, left, right);
    if (left.is_list_like() && left.kind() == right.kind()) return add_lists(rt, left, right);
    if (left.is_string()) {
      return invalid_argument("can only concatenate str (not \"{}\") to str", type_name(right));
    }
    if (left.is_list_like()) {
      return invalid_argument("can only concatenate {} (not \"{}\") to {}", type_name(left), type_name(right),
                              type_name(left));
    }
  }
  if (op == Op::kMul) {
    if ((left.is_string() || left.is_list_like()) && right.is_integral()) return repeat(rt, left, right.as_int());
    if ((right.is_string() || right.is_list_like()) && left.is_integral()) return repeat(rt, right, left.as_int());
  }
  return wrong_types(op, left, right);
}

Result<Value> unary(Op op, const Value& value) {
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_number()) return invalid_argument("bad operand type for unary {}: '{}'", op_text(op), type_name(value));
  if (value.is(Kind::kFloat))
    return Value::real(op == Op::kNeg ? -value.as_real() : value.as_real()).from(value.origin());
  if (op == Op::kPos) return Value::integer(value.as_int()).from(value.origin());
  if (value.as_int() == std::numeric_limits<int64_t>::min()) return too_large();
  return Value::integer(-value.as_int()).from(value.origin());
}

Result<bool> equal(Runtime& rt, const Value& left, const Value& right) {
  TANDEM_TRY(rt.step());
  if (left.is_number() && right.is_number()) return same_key(left, right);
  if (left.kind() != right.kind()) return false;
  switch (left.kind()) {
    case Kind::kString:
      TANDEM_TRY(rt.step(static_cast<int64_t>(std::min(left.text().size(), right.text().size()) / 64)));
      return left.text() == right.text();
    case Kind::kList:
    case Kind::kTuple: {
      if (left.items().size() != right.items().size()) return false;
      for (size_t i = 0; i < left.items().size(); ++i) {
        TANDEM_ASSIGN(const bool same, equal(rt, left.items()[i], right.items()[i]));
        if (!same) return false;
      }
      return true;
    }
    case Kind::kDict: {
      if (left.dict().items.size() != right.dict().items.size()) return false;
      for (const auto& [key, value] : left.dict().items) {
        TANDEM_TRY(rt.look_up(key, right.dict().items.size()));
        const Value* other = right.dict().find(key);
        if (other == nullptr) return false;
        TANDEM_ASSIGN(const bool same, equal(rt, value, *other));
        if (!same) return false;
      }
      return true;
    }
    case Kind::kRange: {
      const auto& a = left.as<RangeObject>();
      const auto& b = right.as<RangeObject>();
      return a.count == b.count && (a.count == 0 || (a.start == b.start && (a.count == 1 || a.step == b.step)));
    }
    default: return same_key(left, right);
  }
}

Result<int> order(Runtime& rt, const Value& left, const Value& right, std::string_view op) {
  TANDEM_TRY(rt.step());
  if (left.is_undefined()) return undefined_error(left);
  if (right.is_undefined()) return undefined_error(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral()) return sign_of(left.as_int(), right.as_int());
    return sign_of(left.as_real(), right.as_real());
  }
  if (left.is_string() && right.is_string()) {
    TANDEM_TRY(rt.step(static_cast<int64_t>(std::min(left.text().size(), right.text().size()) / 64)));
    return left.text().compare(right.text());  // UTF-8 sorts in the order of its code points.
  }
  if (left.is_list_like() && left.kind() == right.kind()) {
    const size_t count = std::min(left.items().size(), right.items().size());
    for (size_t i = 0; i < count; ++i) {
      TANDEM_ASSIGN(const bool same, equal(rt, left.items()[i], right.items()[i]));
      if (!same) return order(rt, left.items()[i], right.items()[i], op);
    }
    return sign_of(left.items().size(), right.items().size());
  }
  return invalid_argument("'{}' not supported between instances of '{}' and '{}'", op, type_name(left),
                          type_name(right));
}

Result<bool> contains(Runtime& rt, const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) return undefined_error(item);
      return invalid_argument("'in <string>' requires string as left operand, not {}", type_name(item));
    }
    TANDEM_TRY(rt.step(static_cast<int64_t>(container.text().size() / 16 + 1)));
    return find_text(container.text(), item.text()) != std::string_view::npos;
  }
  if (container.is_dict()) {
    if (item.is(Kind::kList) || item.is_dict()) return invalid_argument("unhashable type: '{}'", type_name(item));
    TANDEM_TRY(rt.look_up(item, container.dict().items.size()));
    return container.dict().find(item) != nullptr;
  }
  if (container.is(Kind::kGenerator)) {  // Consumes items until it finds one.
    auto& generator = container.as<GeneratorObject>();
    while (generator.next < generator.items.size()) {
      TANDEM_ASSIGN(const bool same, equal(rt, generator.items[generator.next++], item));
      if (same) return true;
    }
    if (generator.error) return *generator.error;
    return false;
  }
  if (container.is_list_like()) {
    for (const Value& value : container.items()) {
      TANDEM_ASSIGN(const bool same, equal(rt, value, item));
      if (same) return true;
    }
    return false;
  }
  if (container.is_undefined()) return false;
  auto items = iterate(rt, container);
  if (!items.ok()) return invalid_argument("argument of type '{}' is not iterable", type_name(container));
  for (const Value& value : *items) {
    TANDEM_ASSIGN(const bool same, equal(rt, value, item));
    if (same) return true;
  }
  return false;
}

Result<bool> compare(Runtime& rt, Op op, const Value& left, const Value& right) {
  switch (op) {
    case Op::kEq: return equal(rt, left, right);
    case Op::kNe: {
      TANDEM_ASSIGN(const bool same, equal(rt, left, right));
      return !same;
    }
    case Op::kIn: return contains(rt, right, left);
    case Op::kNotIn: {
      TANDEM_ASSIGN(const bool in, contains(rt, right, left));
      return !in;
    }
    default: break;
  }
  if (left.is_number() && right.is_number() && (std::isnan(left.as_real()) || std::isnan(right.as_real())))
    return false;
  TANDEM_ASSIGN(const int sign, order(rt, left, right, op_text(op)));
  switch (op) {
    case Op::kLt: return sign < 0;
    case Op::kLe: return sign <= 0;
    case Op::kGt: return sign > 0;
    default: return sign >= 0;
  }
}

}  // namespace tandem::jinja
