// Accounts for the work and memory of a rendering, and holds what filters, tests, methods and operators share.
#pragma once

#include <ctime>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/template.h"
#include "chat/jinja/value.h"

namespace tandem::jinja {

// The arguments of a call.
struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
};

class Runtime;

// A native function or method; `self` is the object of a method.
using Native = Result<Value> (*)(Runtime& rt, const Value& self, Args& args);

struct FunctionObject final : Object {
  using Object::Object;
  std::string name;
  Value self;
  Native native = nullptr;
};

class Runtime {
 public:
  explicit Runtime(const RenderOptions& options);
  virtual ~Runtime() = default;
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Counts work, so that a template that runs forever is stopped; also notices that memory has run out. A step is about
  // 50 ns.
  Status step(int64_t count = 1);
  // Before a text of this size is examined character by character.
  Status scan(size_t bytes) { return step(static_cast<int64_t>(bytes / kScannedPerStep)); }
  // Before a filter or method copies or searches its value and arguments; what it does character by character it scans
  // itself.
  Status scan(const Value& value, const Args& args);
  // Before `key` is looked up in a dict: keys that are not strings are compared one by one.
  Status look_up(const Value& key, size_t items);
  // Before a text under construction grows.
  Status grow(const MarkedText& text, size_t more);
  // Before something of this size is allocated.
  Status reserve_memory(size_t bytes);
  // The same for `count` pieces of `size`, whose product may overflow.
  Status reserve_memory(size_t count, size_t size);

  Meter* meter() { return &meter_; }
  // A plain string counts as data as a whole: whoever tracks its origin has a MarkedText.
  Value string(std::string text, bool markup = false) {
    return string(MarkedText(std::move(text), Origin::kData), markup);
  }
  Value string(MarkedText text, bool markup = false) {
    steps_ += static_cast<int64_t>(text.size() / kCopiedPerStep);
    return Value::string(std::move(text), &meter_, markup);
  }
  // A part of a string; `view` points into its text.
  Value part(const Value& of, std::string_view view, bool markup = false) {
    return string(of.marked().part(view), markup);
  }
  Result<Value> list(std::vector<Value> items);
  Result<Value> tuple(std::vector<Value> items);
  Result<Value> dict(std::shared_ptr<DictObject> dict);
  Result<Value> view(std::string_view what, std::vector<Value> items);
  // An object that yields its items once; with an error after the last one.
  Result<Value> generator(std::vector<Value> items, std::optional<Error> error = {});
  Value function(std::string_view name, Native native, Value self = {});
  Result<Value> checked(Value value) const;  // Refuses deeply nested values.

  // Calls a function, macro, loop or the like.
  virtual Result<Value> call(const Value& callee, Args& args) = 0;

  const std::tm& now() const { return now_; }
  const Limits& limits() const { return limits_; }

  // Whether the pending error was raised by the template, whose message is then the whole message.
  bool raised = false;

 private:
  static constexpr size_t kCopiedPerStep = 64;  // Bytes.
  static constexpr size_t kSearchedPerStep = 32;
  static constexpr size_t kScannedPerStep = 4;

  Limits limits_;
  Meter meter_;
  int64_t steps_ = 0;
  std::tm now_ = {};
};

// Parameters of a native function, by position.
class Bound {
 public:
  explicit Bound(std::vector<Value> values, std::vector<bool> given)
      : values_(std::move(values)), given_(std::move(given)) {}
  bool has(size_t i) const { return given_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }
  bool flag(size_t i, bool fallback) const { return given_[i] ? truth(values_[i]) : fallback; }
  Result<int64_t> integer(size_t i, int64_t fallback) const;
  Result<std::string> text(size_t i, std::string_view fallback) const;
  // The same with its origin; the fallback counts as the template's own.
  Result<MarkedText> marked(size_t i, std::string_view fallback) const;

 private:
  std::vector<Value> values_;
  std::vector<bool> given_;
};
// The first `required` parameters are mandatory.
Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                   size_t required);

// The error of an operation on an undefined value.
Error undefined_error(const Value& value);

// All items of an iterable. A generator is empty afterwards.
Result<std::vector<Value>> iterate(Runtime& rt, const Value& value);
// The first item only; nullopt: there is none.
Result<std::optional<Value>> first_item(Runtime& rt, const Value& value);
Result<int64_t> length_of(const Value& value);

// value.name and value[key], looked up as in Jinja2: either falls back to the other.
Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name);
Result<Value> get_item(Runtime& rt, const Value& value, const Value& key);
Result<Value> get_slice(Runtime& rt, const Value& value, const Value& start, const Value& stop, const Value& step);

// A method, or undefined.
Value find_method(Runtime& rt, const Value& value, std::string_view name);

// {{ now() }} and the like: functions that templates can call by name.
void add_globals(Runtime& rt, std::vector<std::pair<std::string, Value>>& variables);

using Filter = Result<Value> (*)(Runtime& rt, const Value& value, Args& args);
using Test = Result<bool> (*)(Runtime& rt, const Value& value, Args& args);
Filter find_filter(std::string_view name);  // Null: no filter has this name.
Test find_test(std::string_view name);
Result<Value> call_filter(Runtime& rt, std::string_view name, const Value& value, Args& args);
Result<bool> call_test(Runtime& rt, std::string_view name, const Value& value, Args& args);

}  // namespace tandem::jinja
