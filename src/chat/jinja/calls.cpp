// Calls of functions, methods, macros and recursive loops.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/printing.h"

namespace tandem::jinja {

Result<Value> Evaluator::call(const Value& callee, Args& args) {
  TANDEM_TRY(step());
  switch (callee.kind()) {
    case Kind::kFunction: {
      const auto& function = callee.as<FunctionObject>();
      TANDEM_TRY(scan(function.self, args));
      return function.native(*this, function.self, args);
    }
    case Kind::kMacro: return call_macro(callee.as<MacroObject>(), args);
    case Kind::kLoop: return call_loop(callee, args);
    case Kind::kJoiner: {
      auto& joiner = callee.as<JoinerObject>();
      if (joiner.used) return string(joiner.separator);
      joiner.used = true;
      return string(MarkedText());
    }
    case Kind::kUndefined: return undefined_error(callee);
    default: return invalid_argument("'{}' object is not callable", type_name(callee));
  }
}

Status Evaluator::bind_macro(const MacroObject& macro, Args& args, Scope& scope) {
  const Stmt& stmt = *macro.definition;
  const size_t count = stmt.parameters.size();
  bool has_caller = false;
  std::vector<bool> given(count, false);
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = stmt.parameters[i].name;
    has_caller |= name == "caller";
    if (i < args.positional.size()) {
      scope.set(name, args.positional[i]);
      given[i] = true;
      continue;
    }
    const auto named = std::ranges::find_if(args.named, [&](const auto& n) { return n.first == name; });
    if (named == args.named.end()) continue;
    scope.set(name, std::move(named->second));
    given[i] = true;
    args.named.erase(named);
  }
  if (stmt.uses_caller && !has_caller) {
    const auto caller = std::ranges::find_if(args.named, [](const auto& n) { return n.first == "caller"; });
    if (caller != args.named.end()) {
      scope.set("caller", std::move(caller->second));
      args.named.erase(caller);
    } else {
      scope.set("caller", Value::undefined("No caller defined"));
    }
  }
  if (stmt.uses_kwargs) {
    auto kwargs = std::make_shared<DictObject>(meter());
    for (auto& [name, value] : args.named) kwargs->set(string(name), std::move(value));
    TANDEM_ASSIGN(Value value, dict(std::move(kwargs)));
    scope.set("kwargs", std::move(value));
  } else if (!args.named.empty()) {
    return invalid_argument("macro '{}' takes no keyword argument '{}'", macro.name, args.named[0].first);
  }
  if (stmt.uses_varargs) {
    std::vector<Value> rest;
    for (size_t i = count; i < args.positional.size(); ++i) rest.push_back(args.positional[i]);
    TANDEM_ASSIGN(Value value, tuple(std::move(rest)));
    scope.set("varargs", std::move(value));
  } else if (args.positional.size() > count) {
    return invalid_argument("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  // Defaults see the parameters before them.
  for (size_t i = 0; i < count; ++i) {
    if (given[i]) continue;
    const Parameter& parameter = stmt.parameters[i];
    if (parameter.fallback) {
      TANDEM_ASSIGN(Value value, eval(*parameter.fallback));
      scope.set(parameter.name, std::move(value));
    } else {
      scope.set(parameter.name, Value::undefined(str_format("parameter '{}' was not provided", parameter.name)));
    }
  }
  return ok_status();
}

Result<Value> Evaluator::call_macro(const MacroObject& macro, Args& args) {
  const std::shared_ptr<Scope> around = scope_;
  const std::shared_ptr<Scope> inside = macro.scope;
  TANDEM_TRY(push_scope(inside));
  Status status = bind_macro(macro, args, *scope_);
  Result<MarkedText> text = MarkedText();
  if (status.ok()) text = capture(macro.definition->body);
  scope_ = around;
  if (!status.ok()) return std::move(status).error();
  if (!text.ok()) return std::move(text).error();
  return string(std::move(text).value());
}

// {{ loop(children) }} in {% for … recursive %}.
Result<Value> Evaluator::call_loop(const Value& value, Args& args) {
  const auto& loop = value.as<LoopObject>();
  if (loop.statement == nullptr) {
    return invalid_argument("the loop must have the 'recursive' marker to be called recursively");
  }
  TANDEM_ASSIGN(const Bound bound, bind("loop", args, {"iterable"}, 1));
  if (depth_ > limits().depth) return resource_exhausted("the template is nested too deeply");
  MarkedText text;
  MarkedText* const out = std::exchange(out_, &text);
  captured_ += out->size();
  const std::shared_ptr<Scope> around = std::exchange(scope_, std::static_pointer_cast<Scope>(loop.scope));
  ++depth_;
  const Status status = run_loop(*static_cast<const Stmt*>(loop.statement), bound[0], loop.level + 1);
  --depth_;
  captured_ -= out->size();
  out_ = out;
  scope_ = around;
  if (!status.ok()) return status.error();
  return string(std::move(text));
}

}  // namespace tandem::jinja
