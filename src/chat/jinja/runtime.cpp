#include "chat/jinja/runtime.h"

#include <algorithm>

#include "base/error.h"

namespace tandem::jinja {

namespace {
constexpr int kMaxKeyDepth = 4;
}

Runtime::Runtime(const RenderOptions& options) : limits_(options.limits) {
  meter_.limit = limits_.memory;
  if (options.now) {
    now_ = *options.now;
  } else {
    const std::time_t time = std::time(nullptr);
    localtime_r(&time, &now_);
  }
}

Status Runtime::step(int64_t count) {
  steps_ += count;
  if (steps_ > limits_.steps) {
    return resource_exhausted("the template takes too long (more than {} steps)", limits_.steps);
  }
  return reserve_memory(0);
}

Status Runtime::reserve_memory(size_t bytes) {
  if (meter_.exceeded || meter_.live > meter_.limit || bytes > meter_.limit - meter_.live) {
    return resource_exhausted("the template needs too much memory (more than {} MB)", limits_.memory >> 20);
  }
  steps_ += static_cast<int64_t>(bytes / kCopiedPerStep);
  return ok_status();
}

Status Runtime::grow(const MarkedText& text, size_t more) {
  const size_t made = text.size() + text.mark_bytes();
  if (made > meter_.limit - std::min(meter_.live, meter_.limit)) return reserve_memory(made);
  return reserve_memory(more);
}

Status Runtime::scan(const Value& value, const Args& args) {
  const auto bytes = [](const Value& v) { return v.is_string() ? v.text().size() : 0; };
  size_t sum = bytes(value);
  for (const Value& argument : args.positional) sum += bytes(argument);
  for (const auto& [name, argument] : args.named) sum += name.size() + bytes(argument);
  return step(static_cast<int64_t>(sum / kSearchedPerStep));
}

namespace {
int64_t weight_of(const Value& key) {
  if (key.is_string()) return 1 + static_cast<int64_t>(key.text().size() / 64);
  if (!key.is_list_like()) return 1;
  int64_t weight = 1;
  for (const Value& item : key.items()) weight += weight_of(item);
  return weight;
}
}  // namespace

Status Runtime::look_up(const Value& key, size_t items) {
  if (key.is_string()) return step(weight_of(key));
  // Measuring a key that contains the same tuple many times takes as long as comparing it.
  if (key.is_list_like() && key.depth() > kMaxKeyDepth)
    return resource_exhausted("a key of a dict is nested too deeply");
  return step(weight_of(key) * static_cast<int64_t>(items / 4 + 1));
}

Status Runtime::reserve_memory(size_t count, size_t size) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) bytes = SIZE_MAX;
  return reserve_memory(bytes);
}

Result<Value> Runtime::checked(Value value) const {
  if (value.depth() > kMaxValueDepth) return resource_exhausted("a value is nested too deeply");
  return value;
}

Result<Value> Runtime::list(std::vector<Value> items) { return checked(Value::list(std::move(items), &meter_)); }
Result<Value> Runtime::tuple(std::vector<Value> items) { return checked(Value::tuple(std::move(items), &meter_)); }
Result<Value> Runtime::dict(std::shared_ptr<DictObject> dict) {
  return checked(Value::object(Kind::kDict, std::move(dict)));
}

namespace {
int depth_of(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  return depth + 1;
}
}  // namespace

Result<Value> Runtime::view(std::string_view what, std::vector<Value> items) {
  auto view = std::make_shared<ViewObject>(&meter_, sizeof(ViewObject) + bytes_of(items));
  view->depth = depth_of(items);
  view->items = std::move(items);
  view->what = what;
  return checked(Value::object(Kind::kView, std::move(view)));
}

Result<Value> Runtime::generator(std::vector<Value> items, std::optional<Error> error) {
  auto generator = std::make_shared<GeneratorObject>(&meter_, sizeof(GeneratorObject) + bytes_of(items));
  generator->depth = depth_of(items);
  generator->items = std::move(items);
  generator->error = std::move(error);
  return checked(Value::object(Kind::kGenerator, std::move(generator)));
}

Value Runtime::function(std::string_view name, Native native, Value self) {
  auto function = std::make_shared<FunctionObject>(&meter_, sizeof(FunctionObject));
  function->name = name;
  function->native = native;
  function->depth = self.depth() + 1;
  function->self = std::move(self);
  return Value::object(Kind::kFunction, std::move(function));
}

Result<int64_t> Bound::integer(size_t i, int64_t fallback) const {
  if (!given_[i]) return fallback;
  if (values_[i].is_undefined()) return undefined_error(values_[i]);
  if (!values_[i].is_integral()) {
    return invalid_argument("'{}' object cannot be interpreted as an integer", type_name(values_[i]));
  }
  return values_[i].as_int();
}

Result<std::string> Bound::text(size_t i, std::string_view fallback) const {
  TANDEM_ASSIGN(MarkedText text, marked(i, fallback));
  return std::move(text).take();
}

Result<MarkedText> Bound::marked(size_t i, std::string_view fallback) const {
  if (!given_[i]) return MarkedText(std::string(fallback), Origin::kTemplate);
  if (values_[i].is_undefined()) return undefined_error(values_[i]);
  if (!values_[i].is_string()) return invalid_argument("expected a str, not {}", type_name(values_[i]));
  return values_[i].marked();
}

Result<Bound> bind(std::string_view function, const Args& args, std::initializer_list<std::string_view> names,
                   size_t required) {
  if (args.positional.size() > names.size()) {
    return invalid_argument("{}() takes at most {} arguments ({} given)", function, names.size(),
                            args.positional.size());
  }
  std::vector<Value> values(args.positional.begin(), args.positional.end());
  std::vector<bool> given(values.size(), true);
  values.resize(names.size());
  given.resize(names.size(), false);
  for (const auto& [name, value] : args.named) {
    const auto* found = std::ranges::find(names, name);
    if (found == names.end()) return invalid_argument("{}() got an unexpected keyword argument '{}'", function, name);
    const auto i = static_cast<size_t>(found - names.begin());
    if (given[i]) return invalid_argument("{}() got multiple values for argument '{}'", function, name);
    values[i] = value;
    given[i] = true;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!given[i]) {
      return invalid_argument("{}() is missing the argument '{}'", function, std::string(*(names.begin() + i)));
    }
  }
  return Bound(std::move(values), std::move(given));
}

Error undefined_error(const Value& value) {
  if (value.shared() == nullptr) return invalid_argument("a value is undefined");
  return invalid_argument("{}", value.as<UndefinedObject>().why);
}

}  // namespace tandem::jinja
