// The tests that can follow `is`.
#include <algorithm>

#include "base/error.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

using NamedTest = std::pair<std::string_view, Test>;

template <bool (*holds)(const Value&)>
Result<bool> simple(Runtime&, const Value& value, Args& args) {
  TANDEM_TRY(bind("this test", args, {}, 0).status());
  return holds(value);
}

bool is_defined(const Value& v) { return !v.is_undefined(); }
bool is_undefined(const Value& v) { return v.is_undefined(); }
bool is_none(const Value& v) { return v.is_none(); }
bool is_boolean(const Value& v) { return v.is(Kind::kBool); }
bool is_true(const Value& v) { return v.is(Kind::kBool) && v.as_bool(); }
bool is_false(const Value& v) { return v.is(Kind::kBool) && !v.as_bool(); }
bool is_integer(const Value& v) { return v.is(Kind::kInt); }
bool is_float(const Value& v) { return v.is(Kind::kFloat); }
bool is_number(const Value& v) { return v.is_number(); }
bool is_string(const Value& v) { return v.is_string(); }
bool is_mapping(const Value& v) { return v.is_dict(); }
bool is_escaped(const Value& v) { return v.is_markup(); }
bool is_sequence(const Value& v) {
  return v.is_string() || v.is_list_like() || v.is_dict() || v.is(Kind::kRange) || v.is_undefined();
}
bool is_iterable(const Value& v) {
  return is_sequence(v) || v.is(Kind::kView) || v.is(Kind::kGenerator) || v.is(Kind::kLoop);
}
bool is_callable(const Value& v) {
  return v.is(Kind::kFunction) || v.is(Kind::kMacro) || v.is(Kind::kJoiner) || v.is(Kind::kLoop) || v.is_undefined();
}

template <int64_t rest>
Result<bool> parity(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("this test", args, {}, 0).status());
  TANDEM_ASSIGN(const Value modulo, binary(rt, Op::kMod, value, Value::integer(2)));
  return equal(rt, modulo, Value::integer(rest));
}

Result<bool> divisible(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("divisibleby", args, {"num"}, 1));
  TANDEM_ASSIGN(const Value modulo, binary(rt, Op::kMod, value, bound[0]));
  return equal(rt, modulo, Value::integer(0));
}

template <Op op>
Result<bool> comparison(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("this test", args, {"other"}, 1));
  return compare(rt, op, value, bound[0]);
}

Result<bool> same_as(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("sameas", args, {"other"}, 1));
  if (value.kind() != bound[0].kind()) return false;
  if (value.is_number() || value.is_string() || value.is_none()) return equal(rt, value, bound[0]);
  return value.shared() == bound[0].shared();
}

// At least one character has a case, and none the wrong one.
template <bool wants_upper>
Result<bool> cased(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("this test", args, {}, 0).status());
  TANDEM_ASSIGN(const MarkedText text, to_str(rt, value));
  TANDEM_TRY(rt.reserve_memory(text.size(), 4));
  TANDEM_TRY(rt.scan(text.size()));
  bool some = false;
  for (const char32_t c : to_code_points(text.bytes())) {
    if (wants_upper ? is_lower(c) : is_upper(c)) return false;
    some |= wants_upper ? is_upper(c) : is_lower(c);
  }
  return some;
}

Result<bool> is_filter(Runtime&, const Value& value, Args& args) {
  TANDEM_TRY(bind("filter", args, {}, 0).status());
  return value.is_string() && find_filter(value.text()) != nullptr;
}

Result<bool> is_test(Runtime&, const Value& value, Args& args) {
  TANDEM_TRY(bind("test", args, {}, 0).status());
  return value.is_string() && find_test(value.text()) != nullptr;
}

constexpr NamedTest kTests[] = {
    {"defined", simple<is_defined>},
    {"undefined", simple<is_undefined>},
    {"none", simple<is_none>},
    {"boolean", simple<is_boolean>},
    {"true", simple<is_true>},
    {"false", simple<is_false>},
    {"integer", simple<is_integer>},
    {"float", simple<is_float>},
    {"number", simple<is_number>},
    {"string", simple<is_string>},
    {"mapping", simple<is_mapping>},
    {"sequence", simple<is_sequence>},
    {"iterable", simple<is_iterable>},
    {"callable", simple<is_callable>},
    {"escaped", simple<is_escaped>},
    {"odd", parity<1>},
    {"even", parity<0>},
    {"divisibleby", divisible},
    {"sameas", same_as},
    {"lower", cased<false>},
    {"upper", cased<true>},
    {"filter", is_filter},
    {"test", is_test},
    {"in", comparison<Op::kIn>},
    {"==", comparison<Op::kEq>},
    {"eq", comparison<Op::kEq>},
    {"equalto", comparison<Op::kEq>},
    {"!=", comparison<Op::kNe>},
    {"ne", comparison<Op::kNe>},
    {">", comparison<Op::kGt>},
    {"gt", comparison<Op::kGt>},
    {"greaterthan", comparison<Op::kGt>},
    {">=", comparison<Op::kGe>},
    {"ge", comparison<Op::kGe>},
    {"<", comparison<Op::kLt>},
    {"lt", comparison<Op::kLt>},
    {"lessthan", comparison<Op::kLt>},
    {"<=", comparison<Op::kLe>},
    {"le", comparison<Op::kLe>},
};

}  // namespace

Test find_test(std::string_view name) {
  for (const auto& [key, test] : kTests) {
    if (key == name) return test;
  }
  return nullptr;
}

Result<bool> call_test(Runtime& rt, std::string_view name, const Value& value, Args& args) {
  const Test test = find_test(name);
  if (test == nullptr) return unsupported("there is no test named '{}'", name.substr(0, byte_offset(name, 40)));
  return test(rt, value, args);
}

}  // namespace tandem::jinja
