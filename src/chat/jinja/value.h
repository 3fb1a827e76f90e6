// Values of a template: what Python's objects are to Jinja2. A Value is small and cheap to copy; strings, lists and the
// like are shared. All but namespaces, loops, generators, cyclers and joiners are immutable.
//
// Each container knows its nesting depth, and none is nested deeper than kMaxValueDepth: code that walks values may
// recurse.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "chat/jinja/marked_text.h"
#include "tandem/status.h"

namespace tandem::jinja {

inline constexpr int kMaxValueDepth = 400;

enum class Kind : uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kDict,
  kRange,
  kView,  // A dict's items(), keys() or values().
  kNamespace,
  kGenerator,
  kLoop,
  kMacro,
  kFunction,
  kCycler,
  kJoiner,
};

// The memory that the values of one rendering hold. Values from outside a rendering (literals, variables) have no
// meter.
struct Meter {
  size_t live = 0;
  size_t limit = 0;
  bool exceeded = false;
};

// Bytes charged to a Meter, given back on destruction.
class Charge {
 public:
  Charge() = default;
  Charge(Meter* meter, size_t bytes) : meter_(meter) { add(bytes); }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (meter_ != nullptr) meter_->live -= bytes_;
  }
  void add(size_t bytes) {
    if (meter_ == nullptr) return;
    bytes_ += bytes;
    meter_->live += bytes;
    if (meter_->live > meter_->limit) meter_->exceeded = true;
  }

 private:
  Meter* meter_ = nullptr;
  size_t bytes_ = 0;
};

struct Object {
  explicit Object(Meter* meter = nullptr, size_t bytes = 0) : charge(meter, bytes) {}
  virtual ~Object() = default;
  Charge charge;
  int depth = 1;
};

struct StringObject;
struct ListObject;
struct DictObject;

class Value {
 public:
  Value() = default;  // Undefined.
  static Value none() { return Value(Kind::kNone); }
  static Value boolean(bool b);
  static Value integer(int64_t i);
  static Value real(double d);
  // Without a meter: literals, variables and short constants. A plain string counts as data as a whole.
  static Value string(std::string bytes, Meter* meter = nullptr, bool markup = false);
  static Value string(MarkedText text, Meter* meter = nullptr, bool markup = false);
  // A string of the template's own, or of the model's authors.
  static Value literal(std::string bytes) { return string(MarkedText(std::move(bytes), Origin::kTemplate)); }
  static Value undefined(std::string why);
  static Value list(std::vector<Value> items, Meter* meter = nullptr);
  static Value tuple(std::vector<Value> items, Meter* meter = nullptr);
  static Value object(Kind kind, std::shared_ptr<Object> object);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::kUndefined; }
  bool is_none() const { return kind_ == Kind::kNone; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_list_like() const { return kind_ == Kind::kList || kind_ == Kind::kTuple; }
  bool is_dict() const { return kind_ == Kind::kDict; }
  bool is_integral() const { return kind_ == Kind::kInt || kind_ == Kind::kBool; }  // As in Python: True is 1.
  bool is_number() const { return is_integral() || kind_ == Kind::kFloat; }

  // Only valid for the kind that the name says.
  bool as_bool() const { return int_ != 0; }
  int64_t as_int() const { return int_; }  // Also of a bool.
  double as_real() const { return kind_ == Kind::kFloat ? float_ : static_cast<double>(int_); }
  const std::string& text() const;
  const MarkedText& marked() const;  // The same, with its origin.
  size_t length() const;             // Code points of a string.
  bool is_markup() const;
  const std::vector<Value>& items() const;  // Of a list or a tuple.
  const DictObject& dict() const;
  template <typename T>
  T& as() const {
    return static_cast<T&>(*object_);
  }
  const std::shared_ptr<Object>& shared() const { return object_; }
  int depth() const { return object_ ? object_->depth : 0; }

  // The origin of a string or a number. Numbers have one because they end up as text.
  Origin origin() const { return is_string() ? marked().strictest() : origin_; }
  // The same number with another origin.
  Value from(Origin origin) const {
    Value value = *this;
    value.origin_ = origin;
    return value;
  }

 private:
  explicit Value(Kind kind) : kind_(kind) {}
  Kind kind_ = Kind::kUndefined;
  Origin origin_ = Origin::kTemplate;
  union {
    int64_t int_ = 0;
    double float_;
  };
  std::shared_ptr<Object> object_;
};

struct UndefinedObject final : Object {
  using Object::Object;
  std::string why;  // "'x' is undefined"
};

struct StringObject final : Object {
  StringObject(MarkedText content, Meter* meter, bool is_markup);
  bool markup = false;
  MarkedText text;    // Valid UTF-8.
  size_t length = 0;  // Code points.
};

struct ListObject final : Object {
  ListObject(std::vector<Value> values, Meter* meter);
  std::vector<Value> items;
};

// In insertion order. Keys are of any kind that Python can hash.
struct DictObject final : Object {
  explicit DictObject(Meter* meter = nullptr) : Object(meter, sizeof(DictObject)) {}
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);

  std::vector<std::pair<Value, Value>> items;

 private:
  std::unordered_map<std::string_view, size_t> index_;  // Of string keys; their bytes are in `items`.
};

struct ViewObject final : Object {
  using Object::Object;
  std::vector<Value> items;
  std::string_view what;  // "dict_items"
};

struct RangeObject final : Object {
  using Object::Object;
  int64_t start = 0;
  int64_t step = 1;
  int64_t count = 0;
  int64_t stop = 0;
  Origin origin = Origin::kTemplate;

  Value at(int64_t i) const { return Value::integer(start + i * step).from(origin); }
};

struct NamespaceObject final : Object {
  using Object::Object;
  std::vector<std::pair<std::string, Value>> attributes;
};

// What Python computes lazily is computed at once here, but yields its items once only, and its error where it would
// occur.
struct GeneratorObject final : Object {
  using Object::Object;
  std::vector<Value> items;
  size_t next = 0;
  std::optional<Error> error;  // After the last item.
};

struct LoopObject final : Object {
  using Object::Object;
  std::vector<Value> items;
  size_t index = 0;
  int level = 0;                    // Of a recursive loop.
  const void* statement = nullptr;  // The loop, where it is recursive.
  std::shared_ptr<void> scope;      // Around it.
  std::optional<std::vector<Value>> changed;
};

struct CyclerObject final : Object {
  using Object::Object;
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject final : Object {
  using Object::Object;
  MarkedText separator;
  bool used = false;
};

// The memory of a list of these, apart from what its items were charged for.
size_t bytes_of(const std::vector<Value>& items);

bool truth(const Value& value);
// "str", "int", "NoneType", "dict": Python's names, for messages.
std::string_view type_name(const Value& value);
// Equality as Python defines it for dict keys; used by dicts, so it never fails.
bool same_key(const Value& a, const Value& b);

}  // namespace tandem::jinja
