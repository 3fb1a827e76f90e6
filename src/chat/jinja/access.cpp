// Iteration, length, attributes, items and slices of values.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/runtime.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

std::string object_name(const Value& value) {
  return value.is_none() ? "None" : str_format("'{} object'", type_name(value));
}

Value no_attribute(const Value& value, std::string_view name) {
  return Value::undefined(
      str_format("{} has no attribute {}", object_name(value), quoted(name.substr(0, byte_offset(name, 80)))));
}

Value loop_attribute(const LoopObject& loop, std::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.items.size());
  if (name == "index") return Value::integer(index + 1);
  if (name == "index0") return Value::integer(index);
  if (name == "revindex") return Value::integer(length - index);
  if (name == "revindex0") return Value::integer(length - index - 1);
  if (name == "first") return Value::boolean(index == 0);
  if (name == "last") return Value::boolean(index + 1 >= length);
  if (name == "length") return Value::integer(length);
  if (name == "depth") return Value::integer(loop.level + 1);
  if (name == "depth0") return Value::integer(loop.level);
  if (name == "previtem") {
    return index == 0 ? Value::undefined("there is no previous item") : loop.items[loop.index - 1];
  }
  if (name == "nextitem") {
    return index + 1 >= length ? Value::undefined("there is no next item") : loop.items[loop.index + 1];
  }
  return {};
}

// Attributes of the object itself, not of its items; an undefined value without a reason: none.
Value own_attribute(Runtime& rt, const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::kNamespace:
      for (const auto& [key, item] : value.as<NamespaceObject>().attributes) {
        if (key == name) return item;
      }
      return {};
    case Kind::kMacro: {
      const auto& macro = value.as<MacroObject>();
      if (name == "name") return Value::literal(std::string(macro.name));
      return {};
    }
    case Kind::kLoop: {
      Value attribute = loop_attribute(value.as<LoopObject>(), name);
      if (!attribute.is_undefined() || attribute.shared() != nullptr) return attribute;
      break;
    }
    case Kind::kCycler: {
      const auto& cycler = value.as<CyclerObject>();
      if (name == "current") return cycler.items[cycler.position];
      break;
    }
    default: break;
  }
  return find_method(rt, value, name);
}

bool found(const Value& value) { return !value.is_undefined() || value.shared() != nullptr; }

// An index from the start, or nullopt if there is no such item.
std::optional<size_t> index_of(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Value nth_character(Runtime& rt, const Value& text, size_t index) {
  const std::string_view bytes = text.text();
  const size_t start = text.length() == bytes.size() ? index : byte_offset(bytes, index);
  const std::string_view rest = bytes.substr(start);
  return rt.part(text, rest.substr(0, byte_offset(rest, 1)));
}

// value[key] without the fallback to attributes.
Result<Value> own_item(Runtime& rt, const Value& value, const Value& key) {
  if (value.is_dict()) {
    TANDEM_TRY(rt.look_up(key, value.dict().items.size()));
    const Value* item = value.dict().find(key);
    return item != nullptr ? *item : Value();
  }
  if (!key.is_integral()) return Value();
  if (value.is_list_like()) {
    const auto index = index_of(key.as_int(), value.items().size());
    return index ? value.items()[*index] : Value();
  }
  if (value.is_string()) {
    const auto index = index_of(key.as_int(), value.length());
    // A character's position is known only in plain ASCII.
    if (index && value.length() != value.text().size()) TANDEM_TRY(rt.scan(value.text().size()));
    return index ? nth_character(rt, value, *index) : Value();
  }
  if (value.is(Kind::kRange)) {
    const auto& range = value.as<RangeObject>();
    const auto index = index_of(key.as_int(), static_cast<size_t>(range.count));
    return index ? range.at(static_cast<int64_t>(*index)) : Value();
  }
  return Value();
}

Result<std::optional<int64_t>> slice_part(const Value& value) {
  if (value.is_none()) return std::optional<int64_t>();
  if (value.is_undefined()) return undefined_error(value);
  if (!value.is_integral()) return invalid_argument("slice indices must be integers or None, not {}", type_name(value));
  return std::optional(value.as_int());
}

struct SliceRange {
  int64_t start;
  int64_t step;
  int64_t count;
};

SliceRange slice_range(std::optional<int64_t> start, std::optional<int64_t> stop, int64_t step, int64_t size) {
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? size - 1 : size;
  const auto clamp = [&](int64_t i) { return std::clamp(i < 0 ? std::max(i + size, lowest) : i, lowest, highest); };
  const int64_t from = start ? clamp(*start) : (step < 0 ? highest : lowest);
  const int64_t to = stop ? clamp(*stop) : (step < 0 ? lowest : highest);
  const int64_t distance = step < 0 ? from - to : to - from;
  const uint64_t stride = step < 0 ? 0 - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  const int64_t count = distance <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / stride) + 1;
  return {from, step, count};
}

MarkedText every_nth(const MarkedText& text, const SliceRange& range) {
  std::vector<std::string_view> characters;
  for (std::string_view rest = text.bytes(); !rest.empty(); rest.remove_prefix(characters.back().size())) {
    characters.push_back(rest.substr(0, byte_offset(rest, 1)));
  }
  MarkedText part;
  for (int64_t i = 0; i < range.count; ++i) {
    part.append_part(text, characters[static_cast<size_t>(range.start + i * range.step)]);
  }
  return part;
}

}  // namespace

Result<std::vector<Value>> iterate(Runtime& rt, const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined: return items;
    case Kind::kList:
    case Kind::kTuple: TANDEM_TRY(rt.reserve_memory(value.items().size(), sizeof(Value))); return value.items();
    case Kind::kView:
      TANDEM_TRY(rt.reserve_memory(value.as<ViewObject>().items.size(), sizeof(Value)));
      return value.as<ViewObject>().items;
    case Kind::kDict:
      TANDEM_TRY(rt.reserve_memory(value.dict().items.size(), sizeof(Value)));
      for (const auto& item : value.dict().items) items.push_back(item.first);
      return items;
    case Kind::kString: {
      TANDEM_TRY(rt.reserve_memory(value.length(), sizeof(StringObject) + sizeof(Value)));
      std::string_view rest = value.text();
      while (!rest.empty()) {
        const size_t size = byte_offset(rest, 1);
        items.push_back(rt.part(value, rest.substr(0, size)));
        rest.remove_prefix(size);
      }
      return items;
    }
    case Kind::kRange: {
      const auto& range = value.as<RangeObject>();
      TANDEM_TRY(rt.reserve_memory(static_cast<size_t>(range.count), sizeof(Value)));
      for (int64_t i = 0; i < range.count; ++i) items.push_back(range.at(i));
      return items;
    }
    case Kind::kGenerator: {
      auto& generator = value.as<GeneratorObject>();
      TANDEM_TRY(rt.reserve_memory(generator.items.size() - generator.next, sizeof(Value)));
      items.assign(generator.items.begin() + static_cast<std::ptrdiff_t>(generator.next), generator.items.end());
      generator.next = generator.items.size();
      if (generator.error) return *generator.error;
      return items;
    }
    default: return invalid_argument("'{}' object is not iterable", type_name(value));
  }
}

Result<std::optional<Value>> first_item(Runtime& rt, const Value& value) {
  if (value.is(Kind::kGenerator)) {
    auto& generator = value.as<GeneratorObject>();
    if (generator.next < generator.items.size()) return std::optional(generator.items[generator.next++]);
    if (generator.error) return *generator.error;
    return std::optional<Value>();
  }
  if (value.is_string()) {
    if (value.text().empty()) return std::optional<Value>();
    return std::optional(nth_character(rt, value, 0));
  }
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  return items.empty() ? std::optional<Value>() : std::optional(items[0]);
}

Result<int64_t> length_of(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return static_cast<int64_t>(value.length());
    case Kind::kList:
    case Kind::kTuple: return static_cast<int64_t>(value.items().size());
    case Kind::kDict: return static_cast<int64_t>(value.dict().items.size());
    case Kind::kView: return static_cast<int64_t>(value.as<ViewObject>().items.size());
    case Kind::kRange: return value.as<RangeObject>().count;
    case Kind::kLoop: return static_cast<int64_t>(value.as<LoopObject>().items.size());
    default: return invalid_argument("object of type '{}' has no len()", type_name(value));
  }
}

Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name) {
  if (value.is_undefined()) return undefined_error(value);
  if (value.is(Kind::kNamespace)) {
    TANDEM_TRY(rt.step(static_cast<int64_t>(value.as<NamespaceObject>().attributes.size() / 16)));
  }
  Value attribute = own_attribute(rt, value, name);
  if (found(attribute)) return attribute;
  if (value.is_dict()) {
    if (const Value* item = value.dict().find(name)) return *item;
  }
  return no_attribute(value, name);
}

Result<Value> get_item(Runtime& rt, const Value& value, const Value& key) {
  if (value.is_undefined()) return undefined_error(value);
  TANDEM_ASSIGN(Value item, own_item(rt, value, key));
  if (found(item)) return item;
  if (key.is_string()) {
    Value attribute = own_attribute(rt, value, key.text());
    return found(attribute) ? attribute : no_attribute(value, key.text());
  }
  TANDEM_ASSIGN(const MarkedText repr, to_repr(rt, key));
  const std::string_view shown = repr.bytes();
  return Value::undefined(
      str_format("{} has no element {}", object_name(value), shown.substr(0, byte_offset(shown, 80))));
}

Result<Value> get_slice(Runtime& rt, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) return undefined_error(value);
  TANDEM_ASSIGN(const auto from, slice_part(start));
  TANDEM_ASSIGN(const auto to, slice_part(stop));
  TANDEM_ASSIGN(const auto by, slice_part(step));
  if (by == 0) return invalid_argument("slice step cannot be zero");
  if (!value.is_string() && !value.is_list_like() && !value.is(Kind::kRange)) {
    return invalid_argument("'{}' object has no slices", type_name(value));
  }
  TANDEM_ASSIGN(const int64_t size, length_of(value));
  const SliceRange range = slice_range(from, to, by.value_or(1), size);
  if (value.is_string()) {
    TANDEM_TRY(rt.reserve_memory(value.text().size()));
    TANDEM_TRY(rt.scan(value.text().size()));
    if (range.step == 1) {
      const std::string_view bytes = value.text();
      const size_t begin = byte_offset(bytes, static_cast<size_t>(range.start));
      const size_t length = byte_offset(bytes.substr(begin), static_cast<size_t>(range.count));
      return rt.part(value, bytes.substr(begin, length), value.is_markup());
    }
    return rt.string(every_nth(value.marked(), range), value.is_markup());
  }
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(rt, value));
  std::vector<Value> part;
  for (int64_t i = 0; i < range.count; ++i) part.push_back(items[static_cast<size_t>(range.start + i * range.step)]);
  return value.is(Kind::kTuple) ? rt.tuple(std::move(part)) : rt.list(std::move(part));
}

}  // namespace tandem::jinja
