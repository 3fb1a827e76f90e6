#include "chat/jinja/value.h"

#include <algorithm>

#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

int deepest(const std::vector<Value>& values) {
  int depth = 0;
  for (const Value& value : values) depth = std::max(depth, value.depth());
  return depth;
}

constexpr size_t kIndexFrom = 8;  // Smaller dicts are searched linearly.

}  // namespace

StringObject::StringObject(MarkedText content, Meter* meter, bool is_markup)
    : Object(meter, sizeof(StringObject) + content.memory()), markup(is_markup), text(std::move(content)) {
  length = count_code_points(text.bytes());
  depth = 0;
}

size_t bytes_of(const std::vector<Value>& items) {
  constexpr size_t kUndefined = 160;  // They are created everywhere, so they are counted where they are kept.
  size_t bytes = items.capacity() * sizeof(Value);
  for (const Value& item : items) {
    if (item.is_undefined()) bytes += kUndefined;
  }
  return bytes;
}

ListObject::ListObject(std::vector<Value> values, Meter* meter)
    : Object(meter, sizeof(ListObject) + bytes_of(values)), items(std::move(values)) {
  depth = 1 + deepest(items);
}

Value Value::boolean(bool b) {
  Value value(Kind::kBool);
  value.int_ = b ? 1 : 0;
  return value;
}

Value Value::integer(int64_t i) {
  Value value(Kind::kInt);
  value.int_ = i;
  return value;
}

Value Value::real(double d) {
  Value value(Kind::kFloat);
  value.float_ = d;
  return value;
}

Value Value::object(Kind kind, std::shared_ptr<Object> object) {
  Value value(kind);
  value.object_ = std::move(object);
  return value;
}

Value Value::string(std::string bytes, Meter* meter, bool markup) {
  return string(MarkedText(std::move(bytes), Origin::kData), meter, markup);
}

Value Value::string(MarkedText text, Meter* meter, bool markup) {
  return object(Kind::kString, std::make_shared<StringObject>(std::move(text), meter, markup));
}

Value Value::undefined(std::string why) {
  auto undefined = std::make_shared<UndefinedObject>();
  undefined->why = std::move(why);
  undefined->depth = 0;
  return object(Kind::kUndefined, std::move(undefined));
}

Value Value::list(std::vector<Value> items, Meter* meter) {
  return object(Kind::kList, std::make_shared<ListObject>(std::move(items), meter));
}

Value Value::tuple(std::vector<Value> items, Meter* meter) {
  return object(Kind::kTuple, std::make_shared<ListObject>(std::move(items), meter));
}

const std::string& Value::text() const { return as<StringObject>().text.bytes(); }
const MarkedText& Value::marked() const { return as<StringObject>().text; }
size_t Value::length() const { return as<StringObject>().length; }
bool Value::is_markup() const { return is_string() && as<StringObject>().markup; }
const std::vector<Value>& Value::items() const { return as<ListObject>().items; }
const DictObject& Value::dict() const { return as<DictObject>(); }

const Value* DictObject::find(std::string_view key) const {
  if (items.size() >= kIndexFrom) {
    const auto it = index_.find(key);
    return it == index_.end() ? nullptr : &items[it->second].second;
  }
  for (const auto& [name, value] : items) {
    if (name.is_string() && name.text() == key) return &value;
  }
  return nullptr;
}

const Value* DictObject::find(const Value& key) const {
  if (key.is_string()) return find(key.text());
  for (const auto& [name, value] : items) {
    if (!name.is_string() && same_key(name, key)) return &value;
  }
  return nullptr;
}

void DictObject::set(Value key, Value value) {
  depth = std::max({depth, 1 + key.depth(), 1 + value.depth()});
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);  // The items are ours.
    return;
  }
  charge.add(2 * sizeof(std::pair<Value, Value>));
  items.emplace_back(std::move(key), std::move(value));
  const auto add = [&](size_t i) {
    if (items[i].first.is_string()) index_.emplace(items[i].first.text(), i);
  };
  if (items.size() == kIndexFrom) {
    for (size_t i = 0; i < items.size(); ++i) add(i);
  } else if (items.size() > kIndexFrom) {
    add(items.size() - 1);
  }
}

bool truth(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool:
    case Kind::kInt: return value.as_int() != 0;
    case Kind::kFloat: return value.as_real() != 0.0;
    case Kind::kString: return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().empty();
    case Kind::kDict: return !value.dict().items.empty();
    case Kind::kRange: return value.as<RangeObject>().count > 0;
    case Kind::kLoop: return !value.as<LoopObject>().items.empty();
    case Kind::kView: return !value.as<ViewObject>().items.empty();
    case Kind::kGenerator:
    case Kind::kNamespace:
    case Kind::kMacro:
    case Kind::kFunction:
    case Kind::kCycler:
    case Kind::kJoiner: return true;
  }
  return false;
}

std::string_view type_name(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.is_markup() ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return "tuple";
    case Kind::kDict: return "dict";
    case Kind::kRange: return "range";
    case Kind::kView: return value.as<ViewObject>().what;
    case Kind::kNamespace: return "Namespace";
    case Kind::kGenerator: return "generator";
    case Kind::kLoop: return "LoopContext";
    case Kind::kMacro: return "Macro";
    case Kind::kFunction: return "function";
    case Kind::kCycler: return "Cycler";
    case Kind::kJoiner: return "Joiner";
  }
  return "object";
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.as_int() == b.as_int();
    return a.as_real() == b.as_real();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString: return a.text() == b.text();
    case Kind::kTuple: return std::ranges::equal(a.items(), b.items(), same_key);
    default: return a.shared() == b.shared();
  }
}

}  // namespace tandem::jinja
