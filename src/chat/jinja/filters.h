// The filters, one table per file.
#pragma once

#include <span>
#include <utility>

#include "chat/jinja/runtime.h"

namespace tandem::jinja {

using NamedFilter = std::pair<std::string_view, Filter>;
std::span<const NamedFilter> text_filters();
std::span<const NamedFilter> sequence_filters();
std::span<const NamedFilter> order_filters();
std::span<const NamedFilter> number_filters();

// An attribute path such as "function.name" or 0, followed from an item.
Result<Value> follow_path(Runtime& rt, Value item, const Value& path);
// A string in lower case; anything else unchanged. The default sort key.
Result<Value> ignoring_case(Runtime& rt, const Value& value);

}  // namespace tandem::jinja
