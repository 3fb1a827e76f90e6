// What a rendering keeps count of, and what filters, tests, methods and operators share.
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

// A function or method of the engine; `self` is the object of a method.
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

  // Counts work, so that a template that goes on for ever is stopped; also finds out that memory has run out. A step
  // is about 50 ns.
  Status step(int64_t count = 1);
  // Before a text of this size is looked at character by character.
  Status scan(size_t bytes) { return step(static_cast<int64_t>(bytes / kScannedPerStep)); }
  // Before a filter or method copies or searches its value and arguments; what it does character by character it scans
  // by itself.
  Status scan(const Value& value, const Args& args);
  // Before `key` is looked for in a dict: keys that are not strings are compared one by one.
  Status look_up(const Value& key, size_t items);
  // Before a text that is being made gets longer.
  Status grow(const MarkedText& text, size_t more);
  // Before something of this size is made.
  Status make_room(size_t bytes);
  // The same for `count` pieces of `size`, whose product may overflow.
  Status make_room(size_t count, size_t size);

  Meter* meter() { return &meter_; }
  // Of a plain string, all counts as data: whoever keeps track of where it came from has a MarkedText.
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
  // What gives its items once; with an error after the last one.
  Result<Value> generator(std::vector<Value> items, std::optional<Error> error = {});
  Value function(std::string_view name, Native native, Value self = {});
  Result<Value> checked(Value value) const;  // Refuses values that are nested too deeply.

  // Calls a function, macro, loop or the like.
  virtual Result<Value> call(const Value& callee, Args& args) = 0;

  const std::tm& now() const { return now_; }
  const Limits& limits() const { return limits_; }

  // Whether the error that is on its way was raised by the template, whose message is then the whole message.
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
  // The same with where it came from; the fallback is the engine's own.
  Result<MarkedText> marked(size_t i, std::string_view fallback) const;

 private:
  std::vector<Value> values_;
  std::vector<bool> given_;
};
// The first `required` must be given.
Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                   size_t required);

// A message that an operation on something undefined gives.
Error undefined_error(const Value& value);

// All items of something that can be iterated. A generator has none left afterwards.
Result<std::vector<Value>> iterate(Runtime& rt, const Value& value);
// The first item only; nullopt: there is none.
Result<std::optional<Value>> first_item(Runtime& rt, const Value& value);
Result<int64_t> length_of(const Value& value);

// value.name and value[key], as Jinja2 looks them up: either falls back to the other.
Result<Value> get_attribute(Runtime& rt, const Value& value, std::string_view name);
Result<Value> get_item(Runtime& rt, const Value& value, const Value& key);
Result<Value> get_slice(Runtime& rt, const Value& value, const Value& start, const Value& stop, const Value& step);

// A method, or undefined.
Value find_method(Runtime& rt, const Value& value, std::string_view name);

// {{ now() }} and the like: what templates can call by name.
void add_globals(Runtime& rt, std::vector<std::pair<std::string, Value>>& variables);

using Filter = Result<Value> (*)(Runtime& rt, const Value& value, Args& args);
using Test = Result<bool> (*)(Runtime& rt, const Value& value, Args& args);
Filter find_filter(std::string_view name);  // Null: there is none of this name.
Test find_test(std::string_view name);
Result<Value> call_filter(Runtime& rt, std::string_view name, const Value& value, Args& args);
Result<bool> call_test(Runtime& rt, std::string_view name, const Value& value, Args& args);

}  // namespace tandem::jinja
