// The functions that templates can call by name: range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
#include <algorithm>

#include "base/error.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/printing.h"
#include "chat/jinja/strftime.h"

namespace tandem::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // As in Jinja2's sandbox.

Result<Value> make_range(Runtime&, const Value&, Args& args) {
  if (args.positional.empty() || args.positional.size() > 3 || !args.named.empty()) {
    return invalid_argument("range() takes one to three numbers");
  }
  int64_t numbers[3] = {0, 0, 1};
  Origin origin = Origin::kTemplate;
  for (size_t i = 0; i < args.positional.size(); ++i) {
    const Value& value = args.positional[i];
    if (value.is_undefined()) return undefined_error(value);
    if (!value.is_integral()) {
      return invalid_argument("'{}' object cannot be interpreted as an integer", type_name(value));
    }
    numbers[args.positional.size() == 1 ? 1 : i] = value.as_int();
    origin = stricter(origin, value.origin());
  }
  auto range = std::make_shared<RangeObject>();
  range->origin = origin;
  range->start = numbers[0];
  range->stop = numbers[1];
  range->step = numbers[2];
  if (range->step == 0) return invalid_argument("range() arg 3 must not be zero");
  const bool up = range->step > 0;
  if (up ? range->start < range->stop : range->start > range->stop) {
    const auto from = static_cast<uint64_t>(up ? range->start : range->stop);
    const auto to = static_cast<uint64_t>(up ? range->stop : range->start);
    const uint64_t stride = up ? static_cast<uint64_t>(range->step) : 0 - static_cast<uint64_t>(range->step);
    const uint64_t count = (to - from - 1) / stride + 1;
    if (count > kMaxRange) return resource_exhausted("the range is too big (more than {} numbers)", kMaxRange);
    range->count = static_cast<int64_t>(count);
  }
  return Value::object(Kind::kRange, std::move(range));
}

// The attributes of dict(…) and namespace(…): a mapping or pairs, then names.
Result<std::shared_ptr<DictObject>> collect(Runtime& rt, std::string_view what, Args& args) {
  auto dict = std::make_shared<DictObject>(rt.meter());
  if (args.positional.size() > 1) return invalid_argument("{}() takes at most one mapping", what);
  if (!args.positional.empty()) {
    const Value& value = args.positional[0];
    if (value.is_dict()) {
      TANDEM_TRY(rt.step(static_cast<int64_t>(value.dict().items.size())));
      for (const auto& [key, item] : value.dict().items) dict->set(key, item);
    } else {
      TANDEM_ASSIGN(const std::vector<Value> pairs, iterate(rt, value));
      for (const Value& pair : pairs) {
        TANDEM_ASSIGN(const std::vector<Value> parts, iterate(rt, pair));
        if (parts.size() != 2) return invalid_argument("{}() needs pairs of a key and a value", what);
        if (parts[0].is(Kind::kList) || parts[0].is_dict()) {
          return invalid_argument("unhashable type: '{}'", type_name(parts[0]));
        }
        TANDEM_TRY(rt.look_up(parts[0], dict->items.size()));
        dict->set(parts[0], parts[1]);
      }
    }
  }
  for (auto& [name, value] : args.named) dict->set(rt.string(name), std::move(value));
  return dict;
}

Result<Value> make_dict(Runtime& rt, const Value&, Args& args) {
  TANDEM_ASSIGN(auto dict, collect(rt, "dict", args));
  return rt.dict(std::move(dict));
}

Result<Value> make_cycler(Runtime& rt, const Value&, Args& args) {
  if (args.positional.empty() || !args.named.empty()) return invalid_argument("cycler() needs at least one item");
  auto cycler = std::make_shared<CyclerObject>(rt.meter(), sizeof(CyclerObject) + bytes_of(args.positional));
  for (const Value& item : args.positional) cycler->depth = std::max(cycler->depth, item.depth() + 1);
  cycler->items = std::move(args.positional);
  return rt.checked(Value::object(Kind::kCycler, std::move(cycler)));
}

Result<Value> make_joiner(Runtime& rt, const Value&, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("joiner", args, {"sep"}, 0));
  auto joiner = std::make_shared<JoinerObject>(rt.meter(), sizeof(JoinerObject));
  TANDEM_ASSIGN(joiner->separator, bound.marked(0, ", "));
  joiner->charge.add(joiner->separator.memory());
  return Value::object(Kind::kJoiner, std::move(joiner));
}

Result<Value> raise_exception(Runtime& rt, const Value&, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("raise_exception", args, {"message"}, 1));
  TANDEM_ASSIGN(MarkedText message, to_str(rt, bound[0]));
  rt.raised = true;
  return Error{ErrorCode::kInvalidArgument, std::move(message).take()};
}

Result<Value> strftime_now(Runtime& rt, const Value&, Args& args) {
  TANDEM_ASSIGN(const Bound bound, bind("strftime_now", args, {"format"}, 1));
  TANDEM_ASSIGN(const MarkedText format, bound.marked(0, ""));
  TANDEM_TRY(rt.reserve_memory(format.size(), 16));
  return rt.string(MarkedText(format_time(format.bytes(), rt.now()), format.strictest()));
}

}  // namespace

Result<Value> make_namespace(Runtime& rt, const Value&, Args& args) {
  TANDEM_ASSIGN(const auto dict, collect(rt, "namespace", args));
  auto ns = std::make_shared<NamespaceObject>(rt.meter(), sizeof(NamespaceObject));
  ns->depth = dict->depth;
  for (const auto& [key, value] : dict->items) {
    if (!key.is_string()) return invalid_argument("attributes of a namespace need names");
    ns->charge.add(2 * (sizeof(Value) + sizeof(std::string)));
    ns->attributes.emplace_back(key.text(), value);
  }
  auto& evaluator = static_cast<Evaluator&>(rt);
  evaluator.kept_namespaces_.push_back(ns);
  return rt.checked(Value::object(Kind::kNamespace, std::move(ns)));
}

void add_globals(Runtime& rt, std::vector<std::pair<std::string, Value>>& variables) {
  const std::pair<const char*, Native> functions[] = {
      {"range", make_range},         {"dict", make_dict},     {"namespace", make_namespace},
      {"cycler", make_cycler},       {"joiner", make_joiner}, {"raise_exception", raise_exception},
      {"strftime_now", strftime_now}};
  for (const auto& [name, native] : functions) variables.emplace_back(name, rt.function(name, native));
}

}  // namespace tandem::jinja
