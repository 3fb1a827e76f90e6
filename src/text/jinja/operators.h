// + - * / // % ** ~ and comparisons, as Python has them.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/runtime.h"

namespace tandem::jinja {

Result<Value> binary(Runtime& rt, Op op, const Value& left, const Value& right);
Result<Value> unary(Op op, const Value& value);
Result<bool> compare(Runtime& rt, Op op, const Value& left, const Value& right);
Result<bool> equal(Runtime& rt, const Value& left, const Value& right);
// Negative, zero or positive; an error for what has no order.
Result<int> order(Runtime& rt, const Value& left, const Value& right, std::string_view op);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);
std::string escape_html(std::string_view text);

// '%s and %d' % values
Result<std::string> format_percent(Runtime& rt, std::string_view format, const Value& values);
// '{} and {name}'.format(…)
Result<std::string> format_braces(Runtime& rt, std::string_view format, const Args& args);

}  // namespace tandem::jinja
