#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/literals.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {

Result<Value> follow_path(Runtime& rt, Value item, const Value& path) {
  if (path.is_none() || path.is_undefined()) return item;
  if (!path.is_string()) return get_item(rt, item, path);
  std::string_view rest = path.text();
  for (;;) {
    TANDEM_TRY(rt.step(4));  // Makes a string, and often a message.
    const size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const bool number = !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
    const auto index = number ? parse_int(part, 10) : std::nullopt;
    TANDEM_ASSIGN(item, get_item(rt, item, index ? Value::integer(*index) : rt.string(std::string(part))));
    if (dot == std::string_view::npos) return item;
    rest.remove_prefix(dot + 1);
  }
}

namespace {

Result<Value> join(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("join", args, {"d", "attribute"}, 0));
  TANDEM_ASSIGN(const MarkedText separator, bound.has(0) ? to_str(rt, bound[0]) : Result<MarkedText>(MarkedText()));
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  MarkedText text;
  for (size_t i = 0; i < items.size(); ++i) {
    TANDEM_TRY(rt.step());
    if (i > 0) text.append(separator);
    if (bound.has(1)) {
      TANDEM_ASSIGN(const Value item, follow_path(rt, items[i], bound[1]));
      TANDEM_TRY(append_str(rt, text, item));
    } else {
      TANDEM_TRY(append_str(rt, text, items[i]));
    }
  }
  return rt.string(std::move(text));
}

Result<Value> length(Runtime&, const Value& value, Args& args) {
  TANDEM_TRY(bind("length", args, {}, 0).status());
  TANDEM_ASSIGN(const int64_t count, length_of(value));
  return Value::integer(count);
}

Result<Value> first(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("first", args, {}, 0).status());
  TANDEM_ASSIGN(auto item, first_item(rt, value));
  return item ? *item : Value::undefined("No first item, sequence was empty.");
}

Result<Value> last(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("last", args, {}, 0).status());
  if (value.is(Kind::kGenerator)) return invalid_argument("'generator' object is not reversible");
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Result<Value> as_list(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("list", args, {}, 0).status());
  TANDEM_ASSIGN(std::vector<Value> items, iterate(rt, value));
  return rt.list(std::move(items));
}

Result<Value> reverse(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("reverse", args, {}, 0).status());
  if (value.is_string()) return get_slice(rt, value, Value::none(), Value::none(), Value::integer(-1));
  TANDEM_ASSIGN(std::vector<Value> items, iterate(rt, value));
  std::ranges::reverse(items);
  if (value.is(Kind::kGenerator)) return rt.list(std::move(items));
  return rt.generator(std::move(items));
}

Result<Value> batch(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("batch", args, {"linecount", "fill_with"}, 1));
  TANDEM_ASSIGN(const int64_t size, bound.integer(0, 0));
  const auto given = iterate(rt, value);
  if (!given.ok()) return rt.generator({}, given.error());
  const std::vector<Value>& items = *given;
  std::vector<Value> batches;
  std::vector<Value> part;
  for (const Value& item : items) {
    if (static_cast<int64_t>(part.size()) == size) {
      TANDEM_ASSIGN(Value done, rt.list(std::exchange(part, {})));
      batches.push_back(std::move(done));
      TANDEM_TRY(rt.step());
    }
    part.push_back(item);
  }
  if (!part.empty()) {
    if (bound.has(1) && !bound[1].is_none() && static_cast<int64_t>(part.size()) < size) {
      TANDEM_TRY(rt.reserve_memory(static_cast<size_t>(size), sizeof(Value)));
      part.resize(static_cast<size_t>(size), bound[1]);
    }
    TANDEM_ASSIGN(Value done, rt.list(std::move(part)));
    batches.push_back(std::move(done));
  }
  return rt.generator(std::move(batches));
}

Result<Value> slices(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("slice", args, {"slices", "fill_with"}, 1));
  TANDEM_ASSIGN(const int64_t count, bound.integer(0, 0));
  const auto given = iterate(rt, value);
  if (!given.ok()) return rt.generator({}, given.error());
  const std::vector<Value>& items = *given;
  if (count <= 0) return count == 0 ? Result<Value>(invalid_argument("division by zero")) : rt.generator({});
  TANDEM_TRY(rt.reserve_memory(static_cast<size_t>(count), sizeof(ListObject) + 2 * sizeof(Value)));
  const size_t per = items.size() / static_cast<size_t>(count);
  const size_t extra = items.size() % static_cast<size_t>(count);
  std::vector<Value> parts;
  size_t at = 0;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    TANDEM_TRY(rt.step());
    const size_t size = per + (i < extra ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(at + size));
    at += size;
    if (bound.has(1) && !bound[1].is_none() && i >= extra) part.push_back(bound[1]);
    TANDEM_ASSIGN(Value done, rt.list(std::move(part)));
    parts.push_back(std::move(done));
  }
  return rt.generator(std::move(parts));
}

// Applies `convert` to each item, as a generator does: an error comes after the items before it.
template <typename Convert>
Result<Value> generate(Runtime& rt, const Value& value, Convert convert) {
  std::vector<Value> results;
  if (!truth(value)) return rt.generator({});
  auto items = iterate(rt, value);
  if (!items.ok()) return rt.generator({}, std::move(items).error());
  for (const Value& item : *items) {
    TANDEM_TRY(rt.step());
    Result<std::optional<Value>> result = convert(item);
    if (!result.ok()) return rt.generator(std::move(results), std::move(result).error());
    if (*result) results.push_back(**std::move(result));
  }
  return rt.generator(std::move(results));
}

Result<Value> map(Runtime& rt, const Value& value, Args& args) {
  using Item = Result<std::optional<Value>>;
  const auto named = [&](std::string_view name) -> const Value* {
    const auto it = std::ranges::find_if(args.named, [&](const auto& n) { return n.first == name; });
    return it == args.named.end() ? nullptr : &it->second;
  };
  if (args.positional.empty()) {
    const Value* attribute = named("attribute");
    const Value* fallback = named("default");
    if (attribute == nullptr || args.named.size() > (fallback != nullptr ? 2u : 1u)) {
      return rt.generator({}, invalid_argument("map requires a filter argument"));
    }
    return generate(rt, value, [&](const Value& item) -> Item {
      TANDEM_ASSIGN(Value found, follow_path(rt, item, *attribute));
      if (found.is_undefined() && fallback != nullptr && !fallback->is_none()) return std::optional(*fallback);
      return std::optional(std::move(found));
    });
  }
  return generate(rt, value, [&](const Value& item) -> Item {
    if (!args.positional[0].is_string()) return invalid_argument("map requires the name of a filter");
    Args rest;
    rest.positional.assign(args.positional.begin() + 1, args.positional.end());
    rest.named = args.named;
    TANDEM_ASSIGN(Value result, call_filter(rt, args.positional[0].text(), item, rest));
    return std::optional(std::move(result));
  });
}

Result<Value> choose(Runtime& rt, const Value& value, Args& args, bool wanted, bool by_attribute) {
  using Item = Result<std::optional<Value>>;
  return generate(rt, value, [&](const Value& item) -> Item {
    size_t next = 0;
    Value tested = item;
    if (by_attribute) {
      if (args.positional.empty()) return invalid_argument("Missing parameter for attribute name");
      TANDEM_ASSIGN(tested, follow_path(rt, item, args.positional[next++]));
    }
    bool holds = truth(tested);
    if (next < args.positional.size()) {
      const Value& name = args.positional[next++];
      if (!name.is_string()) return invalid_argument("a test needs a name");
      Args rest;
      rest.positional.assign(args.positional.begin() + static_cast<std::ptrdiff_t>(next), args.positional.end());
      rest.named = args.named;
      TANDEM_ASSIGN(holds, call_test(rt, name.text(), tested, rest));
    }
    return holds == wanted ? std::optional(item) : std::optional<Value>();
  });
}

template <bool wanted, bool by_attribute>
Result<Value> choose_filter(Runtime& rt, const Value& value, Args& args) {
  return choose(rt, value, args, wanted, by_attribute);
}

Result<Value> items_of(Runtime& rt, const Value& value, Args& args) {
  TANDEM_TRY(bind("items", args, {}, 0).status());
  if (value.is_undefined()) return rt.generator({});
  if (!value.is_dict()) return rt.generator({}, invalid_argument("Can only get item pairs from a mapping."));
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.dict().items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(Value pair, rt.tuple({key, item}));
    pairs.push_back(std::move(pair));
  }
  return rt.generator(std::move(pairs));
}

Result<Value> attribute(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("attr", args, {"name"}, 1));
  TANDEM_ASSIGN(const std::string name, bound.text(0, ""));
  if (value.is_dict() && !find_method(rt, value, name).is(Kind::kFunction)) {
    return Value::undefined(str_format("'dict object' has no attribute '{}'",
                                       name.substr(0, byte_offset(name, 80))));  // Does not count its items.
  }
  return get_attribute(rt, value, name);
}

}  // namespace

std::span<const NamedFilter> sequence_filters() {
  static constexpr NamedFilter kFilters[] = {
      {"join", join},
      {"length", length},
      {"count", length},
      {"first", first},
      {"last", last},
      {"list", as_list},
      {"reverse", reverse},
      {"batch", batch},
      {"slice", slices},
      {"map", map},
      {"select", choose_filter<true, false>},
      {"reject", choose_filter<false, false>},
      {"selectattr", choose_filter<true, true>},
      {"rejectattr", choose_filter<false, true>},
      {"items", items_of},
      {"attr", attribute},
  };
  return kFilters;
}

}  // namespace tandem::jinja
