// Filters that compare items: sort, unique, min, max, sum, groupby.
#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "chat/jinja/filters.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {

Result<Value> ignoring_case(Runtime& rt, const Value& value) {
  if (!value.is_string()) return value;
  TANDEM_TRY(rt.reserve_memory(value.text().size(), 8));
  TANDEM_TRY(rt.step(static_cast<int64_t>(value.text().size())));
  return rt.string(convert_characters(value.marked(), lower));
}

namespace {

// The key that an item is compared by.
Result<Value> key_of(Runtime& rt, const Value& item, const Value& attribute, bool case_sensitive) {
  TANDEM_ASSIGN(Value key, follow_path(rt, item, attribute));
  return case_sensitive ? Result<Value>(std::move(key)) : ignoring_case(rt, key);
}

// The order of the items; stable in reverse too.
Result<std::vector<size_t>> sorted_order(Runtime& rt, const std::vector<Value>& keys, bool reverse) {
  std::vector<size_t> indexes(keys.size());
  std::iota(indexes.begin(), indexes.end(), size_t{0});
  std::optional<Error> error;
  std::ranges::stable_sort(indexes, [&](size_t a, size_t b) {
    if (error) return false;
    const auto sign = reverse ? order(rt, keys[b], keys[a], "<") : order(rt, keys[a], keys[b], "<");
    if (sign.ok()) return *sign < 0;
    error = sign.error();
    return false;
  });
  if (error) return *error;
  return indexes;
}

Result<std::vector<Value>> keys_of(Runtime& rt, const std::vector<Value>& items, const Value& attribute,
                                   bool case_sensitive) {
  std::vector<Value> keys;
  for (const Value& item : items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(Value key, key_of(rt, item, attribute, case_sensitive));
    keys.push_back(std::move(key));
  }
  return keys;
}

// "a,b" sorts by a, then by b.
Result<std::vector<Value>> sort_keys(Runtime& rt, const std::vector<Value>& items, const Value& attribute,
                                     bool case_sensitive) {
  if (!attribute.is_string() || attribute.text().find(',') == std::string::npos) {
    return keys_of(rt, items, attribute, case_sensitive);
  }
  std::vector<std::vector<Value>> columns;
  std::string_view rest = attribute.text();
  for (;;) {
    const size_t comma = rest.find(',');
    const Value part = rt.string(std::string(rest.substr(0, comma)));
    TANDEM_ASSIGN(std::vector<Value> column, keys_of(rt, items, part, case_sensitive));
    columns.push_back(std::move(column));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<Value> keys;
  for (size_t i = 0; i < items.size(); ++i) {
    std::vector<Value> parts;
    for (const auto& column : columns) parts.push_back(column[i]);
    TANDEM_ASSIGN(Value key, rt.tuple(std::move(parts)));
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<Value> sort(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("sort", args, {"reverse", "case_sensitive", "attribute"}, 0));
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  TANDEM_ASSIGN(const std::vector<Value> keys, sort_keys(rt, items, bound[2], bound.flag(1, false)));
  TANDEM_ASSIGN(const std::vector<size_t> indexes, sorted_order(rt, keys, bound.flag(0, false)));
  std::vector<Value> sorted;
  for (const size_t i : indexes) sorted.push_back(items[i]);
  return rt.list(std::move(sorted));
}

Result<Value> dictsort(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("dictsort", args, {"case_sensitive", "by", "reverse"}, 0));
  TANDEM_ASSIGN(const std::string by, bound.text(1, "key"));
  if (by != "key" && by != "value") return invalid_argument("You can only sort by either \"key\" or \"value\"");
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_dict()) return invalid_argument("dictsort needs a dict, not {}", type_name(value));
  std::vector<Value> compared;
  std::vector<Value> pairs;
  for (const auto& [key, item] : value.dict().items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(Value sorted_by, key_of(rt, by == "key" ? key : item, Value::none(), bound.flag(0, false)));
    compared.push_back(std::move(sorted_by));
    TANDEM_ASSIGN(Value pair, rt.tuple({key, item}));
    pairs.push_back(std::move(pair));
  }
  TANDEM_ASSIGN(const std::vector<size_t> indexes, sorted_order(rt, compared, bound.flag(2, false)));
  std::vector<Value> sorted;
  for (const size_t i : indexes) sorted.push_back(pairs[i]);
  return rt.list(std::move(sorted));
}

Result<Value> unique(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("unique", args, {"case_sensitive", "attribute"}, 0));
  const auto given = iterate(rt, value);
  if (!given.ok()) return rt.generator({}, given.error());
  const std::vector<Value>& items = *given;
  TANDEM_ASSIGN(const std::vector<Value> keys, keys_of(rt, items, bound[1], bound.flag(0, false)));
  DictObject seen;
  std::vector<Value> kept;
  for (size_t i = 0; i < items.size(); ++i) {
    if (keys[i].is(Kind::kList) || keys[i].is_dict()) {
      return rt.generator(std::move(kept), invalid_argument("unhashable type: '{}'", type_name(keys[i])));
    }
    TANDEM_TRY(rt.look_up(keys[i], seen.items.size()));
    if (seen.find(keys[i]) != nullptr) continue;
    seen.set(keys[i], Value::none());
    kept.push_back(items[i]);
  }
  return rt.generator(std::move(kept));
}

template <int sign>
Result<Value> extreme(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind(sign < 0 ? "min" : "max", args, {"case_sensitive", "attribute"}, 0));
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  TANDEM_ASSIGN(const std::vector<Value> keys, keys_of(rt, items, bound[1], bound.flag(0, false)));
  size_t best = 0;
  for (size_t i = 1; i < items.size(); ++i) {
    TANDEM_ASSIGN(const int compared, order(rt, keys[i], keys[best], sign < 0 ? "<" : ">"));
    if (compared * sign > 0) best = i;
  }
  return items[best];
}

Result<Value> sum(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("sum", args, {"attribute", "start"}, 0));
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  Value total = bound.has(1) ? bound[1] : Value::integer(0);
  if (total.is_string()) return invalid_argument("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(const Value part, follow_path(rt, item, bound[0]));
    TANDEM_ASSIGN(total, binary(rt, Op::kAdd, total, part));
  }
  return total;
}

Result<Value> groupby(Runtime& rt, const Value& value, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("groupby", args, {"attribute", "default", "case_sensitive"}, 1));
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  const bool case_sensitive = bound.flag(2, false);
  std::vector<Value> shown;
  std::vector<Value> keys;
  for (const Value& item : items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(Value key, follow_path(rt, item, bound[0]));
    if (key.is_undefined() && bound.has(1) && !bound[1].is_none()) key = bound[1];
    shown.push_back(key);
    TANDEM_ASSIGN(Value compared, case_sensitive ? Result<Value>(key) : ignoring_case(rt, key));
    keys.push_back(std::move(compared));
  }
  TANDEM_ASSIGN(const std::vector<size_t> indexes, sorted_order(rt, keys, false));
  std::vector<Value> groups;
  for (size_t i = 0; i < indexes.size();) {
    std::vector<Value> members;
    const size_t start = i;
    for (; i < indexes.size(); ++i) {
      TANDEM_ASSIGN(const bool same, equal(rt, keys[indexes[start]], keys[indexes[i]]));
      if (!same) break;
      members.push_back(items[indexes[i]]);
    }
    if (members.empty()) break;
    TANDEM_ASSIGN(Value list, rt.list(std::move(members)));
    TANDEM_ASSIGN(Value group, rt.tuple({shown[indexes[start]], std::move(list)}));
    groups.push_back(std::move(group));
  }
  return rt.list(std::move(groups));
}

}  // namespace

std::span<const NamedFilter> order_filters() {
  static constexpr NamedFilter kFilters[] = {
      {"sort", sort},      {"dictsort", dictsort}, {"unique", unique},   {"min", extreme<-1>},
      {"max", extreme<1>}, {"sum", sum},           {"groupby", groupby},
  };
  return kFilters;
}

Filter find_filter(std::string_view name) {
  for (const auto& filters : {text_filters(), sequence_filters(), order_filters(), number_filters()}) {
    for (const auto& [key, filter] : filters) {
      if (key == name) return filter;
    }
  }
  return nullptr;
}

Result<Value> call_filter(Runtime& rt, std::string_view name, const Value& value, Args& args) {
  const Filter filter = find_filter(name);
  if (filter == nullptr) return unsupported("there is no filter named '{}'", name.substr(0, byte_offset(name, 40)));
  TANDEM_TRY(rt.scan(value, args));
  return filter(rt, value, args);
}

}  // namespace tandem::jinja
