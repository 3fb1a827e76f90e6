// The methods of strings that return parts of them, and the methods of lists, dicts, loops and cyclers.
#include <algorithm>

#include "base/error.h"
#include "base/find_text.h"
#include "base/format.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/text_methods.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

// The parts are views into the text of `whole`.
Result<Value> strings(Runtime& rt, const Value& whole, const std::vector<std::string_view>& parts) {
  std::vector<Value> items;
  for (const std::string_view part : parts) {
    TANDEM_TRY(rt.step(2));
    items.push_back(rt.part(whole, part));
  }
  return rt.list(std::move(items));
}

// Splits at white space, any amount of which is one separator.
std::vector<std::string_view> split_spaces(std::string_view text, int64_t limit, bool from_end) {
  std::vector<std::string_view> parts;
  text = strip(text, nullptr, !from_end, from_end);
  while (!text.empty()) {
    if (limit == 0) {
      parts.push_back(strip(text, nullptr, !from_end, from_end));
      break;
    }
    size_t cut = 0;  // Where the word ends, or begins if from the end.
    if (from_end) {
      cut = text.size();
      while (cut > 0) {
        size_t at = cut - 1;
        while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
        if (is_space(to_code_points(text.substr(at, cut - at))[0])) break;
        cut = at;
      }
      parts.push_back(text.substr(cut));
      text = strip(text.substr(0, cut), nullptr, false, true);
    } else {
      while (cut < text.size()) {
        const size_t size = byte_offset(text.substr(cut), 1);
        if (is_space(to_code_points(text.substr(cut, size))[0])) break;
        cut += size;
      }
      parts.push_back(text.substr(0, cut));
      text = strip(text.substr(cut), nullptr, true, false);
    }
    if (limit > 0) --limit;
  }
  if (from_end) std::ranges::reverse(parts);
  return parts;
}

template <bool from_end>
Result<Value> split(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind(from_end ? "rsplit" : "split", args, {"sep", "maxsplit"}, 0));
  TANDEM_ASSIGN(int64_t limit, bound.integer(1, -1));
  TANDEM_TRY(rt.reserve_memory(self.text().size(), 8));
  std::string_view text = self.text();
  if (!bound.has(0) || bound[0].is_none()) {
    TANDEM_TRY(rt.scan(text.size()));
    return strings(rt, self, split_spaces(text, limit, from_end));
  }
  TANDEM_ASSIGN(const std::string separator, bound.text(0, ""));
  if (separator.empty()) return invalid_argument("empty separator");
  std::vector<std::string_view> parts;
  for (; limit != 0; limit -= limit > 0 ? 1 : 0) {
    const size_t at = from_end ? find_last_text(text, separator) : find_text(text, separator);
    if (at == std::string_view::npos) break;
    parts.push_back(from_end ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_end ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.push_back(text);
  if (from_end) std::ranges::reverse(parts);
  return strings(rt, self, parts);
}

template <bool from_end>
Result<Value> partition(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("partition", args, {"sep"}, 1));
  TANDEM_ASSIGN(const std::string separator, bound.text(0, ""));
  if (separator.empty()) return invalid_argument("empty separator");
  const std::string_view text = self.text();
  const size_t at = from_end ? find_last_text(text, separator) : find_text(text, separator);
  const auto part = [&](size_t begin, size_t size) { return rt.part(self, text.substr(begin, size)); };
  if (at == std::string_view::npos) {
    const Value whole = part(0, text.size());
    return from_end ? rt.tuple({part(0, 0), part(0, 0), whole}) : rt.tuple({whole, part(0, 0), part(0, 0)});
  }
  const size_t end = at + separator.size();
  // The separator is the argument, as in Python, but it is found in the text, so it has the text's origin.
  return rt.tuple({part(0, at), part(at, separator.size()), part(end, text.size() - end)});
}

Result<Value> splitlines(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("splitlines", args, {"keepends"}, 0));
  TANDEM_ASSIGN(const auto lines, split_lines(rt, self.text(), bound.flag(0, false)));
  return strings(rt, self, lines);
}

Result<Value> dict_items(Runtime& rt, const Value& self, Args& args) {
  TANDEM_TRY(bind("items", args, {}, 0).status());
  std::vector<Value> pairs;
  for (const auto& [key, value] : self.dict().items) {
    TANDEM_TRY(rt.step());
    TANDEM_ASSIGN(Value pair, rt.tuple({key, value}));
    pairs.push_back(std::move(pair));
  }
  return rt.view("dict_items", std::move(pairs));
}

template <bool keys>
Result<Value> dict_parts(Runtime& rt, const Value& self, Args& args) {
  TANDEM_TRY(bind(keys ? "keys" : "values", args, {}, 0).status());
  TANDEM_TRY(rt.reserve_memory(self.dict().items.size(), sizeof(Value)));
  std::vector<Value> parts;
  for (const auto& [key, value] : self.dict().items) parts.push_back(keys ? key : value);
  return rt.view(keys ? "dict_keys" : "dict_values", std::move(parts));
}

Result<Value> dict_get(Runtime& rt, const Value& self, Args& args) {
  if (!args.named.empty()) return invalid_argument("get() takes no keyword arguments");
  TANDEM_ASSIGN(const Bound bound, bind("get", args, {"key", "default"}, 1));
  if (bound[0].is(Kind::kList) || bound[0].is_dict()) {
    return invalid_argument("unhashable type: '{}'", type_name(bound[0]));
  }
  TANDEM_TRY(rt.look_up(bound[0], self.dict().items.size()));
  if (const Value* value = self.dict().find(bound[0])) return *value;
  return bound.has(1) ? bound[1] : Value::none();
}

Result<Value> copy(Runtime&, const Value& self, Args& args) {
  TANDEM_TRY(bind("copy", args, {}, 0).status());
  return self;  // It is immutable.
}

template <bool count>
Result<Value> list_search(Runtime& rt, const Value& self, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind(count ? "count" : "index", args, {"value"}, 1));
  int64_t found = 0;
  for (size_t i = 0; i < self.items().size(); ++i) {
    TANDEM_ASSIGN(const bool same, equal(rt, self.items()[i], bound[0]));
    if (!same) continue;
    if (!count) return Value::integer(static_cast<int64_t>(i));
    ++found;
  }
  if (!count) return invalid_argument("the value is not in the list");
  return Value::integer(found);
}

Result<Value> loop_cycle(Runtime&, const Value& self, Args& args) {
  if (args.positional.empty() || !args.named.empty()) return invalid_argument("no items for cycling given");
  return args.positional[self.as<LoopObject>().index % args.positional.size()];
}

Result<Value> loop_changed(Runtime& rt, const Value& self, Args& args) {
  auto& last = self.as<LoopObject>().changed;
  if (last && last->size() == args.positional.size()) {
    bool same = true;
    for (size_t i = 0; i < last->size() && same; ++i) {
      TANDEM_ASSIGN(same, equal(rt, (*last)[i], args.positional[i]));
    }
    if (same) return Value::boolean(false);
  }
  // A loop that contains itself would never be freed.
  for (const Value& value : args.positional) {
    if (value.depth() >= self.depth() && value.depth() > 0) return unsupported("loop.changed() of such a value");
  }
  last = args.positional;
  return Value::boolean(true);
}

Result<Value> cycler_next(Runtime&, const Value& self, Args& args) {
  TANDEM_TRY(bind("next", args, {}, 0).status());
  auto& cycler = self.as<CyclerObject>();
  Value value = cycler.items[cycler.position];
  cycler.position = (cycler.position + 1) % cycler.items.size();
  return value;
}

Result<Value> cycler_reset(Runtime&, const Value& self, Args& args) {
  TANDEM_TRY(bind("reset", args, {}, 0).status());
  self.as<CyclerObject>().position = 0;
  return Value::none();
}

bool any_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Native find_split_method(std::string_view name) {
  if (name == "split") return split<false>;
  if (name == "rsplit") return split<true>;
  if (name == "partition") return partition<false>;
  if (name == "rpartition") return partition<true>;
  if (name == "splitlines") return splitlines;
  return nullptr;
}

Native find_container_method(Kind kind, std::string_view name) {
  switch (kind) {
    case Kind::kDict:
      if (name == "items") return dict_items;
      if (name == "keys") return dict_parts<true>;
      if (name == "values") return dict_parts<false>;
      if (name == "get") return dict_get;
      return name == "copy" ? copy : nullptr;
    case Kind::kList:
      if (name == "copy") return copy;
      [[fallthrough]];
    case Kind::kTuple:
      if (name == "index") return list_search<false>;
      return name == "count" ? list_search<true> : nullptr;
    case Kind::kLoop:
      if (name == "cycle") return loop_cycle;
      return name == "changed" ? loop_changed : nullptr;
    case Kind::kCycler:
      if (name == "next") return cycler_next;
      return name == "reset" ? cycler_reset : nullptr;
    default: return nullptr;
  }
}

Value find_method(Runtime& rt, const Value& value, std::string_view name) {
  const Native native = value.is_string() ? find_text_method(name) : find_container_method(value.kind(), name);
  if (native != nullptr) return rt.function(name, native, value);
  // transformers' sandbox does not let templates change their variables.
  const bool changes = (value.is(Kind::kList) &&
                        any_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"})) ||
                       (value.is_dict() && any_of(name, {"clear", "pop", "popitem", "setdefault", "update"}));
  if (changes || (name.starts_with("__") && name.ends_with("__"))) {
    return Value::undefined(str_format("access to attribute '{}' of '{}' object is unsafe.",
                                       name.substr(0, byte_offset(name, 40)), type_name(value)));
  }
  return {};
}

}  // namespace tandem::jinja
