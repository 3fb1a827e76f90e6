// + - * / // % ** ~ and comparisons, as in Python.
#pragma once

#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace tandem::jinja {

Result<Value> binary(Runtime& rt, Op op, const Value& left, const Value& right);
Result<Value> unary(Op op, const Value& value);
Result<bool> compare(Runtime& rt, Op op, const Value& left, const Value& right);
Result<bool> equal(Runtime& rt, const Value& left, const Value& right);
// Negative, zero or positive; an error for values without an order.
Result<int> order(Runtime& rt, const Value& left, const Value& right, std::string_view op);
Result<bool> contains(Runtime& rt, const Value& container, const Value& item);
MarkedText escape_html(const MarkedText& text);

// '%s and %d' % values
Result<MarkedText> format_percent(Runtime& rt, const MarkedText& format, const Value& values);
// '{} and {name}'.format(…)
Result<MarkedText> format_braces(Runtime& rt, const MarkedText& format, const Args& args);

}  // namespace tandem::jinja
