#include "chat/jinja/evaluator.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/printing.h"

namespace tandem::jinja {

const Value* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

size_t Scope::width() const {
  size_t count = 0;
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) count += scope->variables.size();
  return count;
}

void Scope::set(std::string_view name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  charge.add(2 * (sizeof(Value) + sizeof(std::string)));
  variables.emplace_back(name, std::move(value));
}

Evaluator::~Evaluator() {
  // All of them are still held here, so emptying one destroys no other.
  for (const auto& scope : kept_scopes_) scope->variables.clear();
  for (const auto& ns : kept_namespaces_) static_cast<NamespaceObject&>(*ns).attributes.clear();
}

// Counts a level of recursion during its lifetime.
class Evaluator::Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;
  ~Deeper() { --depth_; }

 private:
  int& depth_;
};

Result<Value> Evaluator::eval(const Expr& expr) {
  if (expr.kind == ExprKind::kConst) return expr.value;
  const Deeper deeper(depth_);
  if (depth_ > limits().depth) {
    if (error_line_ == 0) error_line_ = expr.line;
    return resource_exhausted("the template is nested too deeply, or a macro calls itself without end");
  }
  if (Status status = step(); !status.ok()) {
    if (error_line_ == 0) error_line_ = expr.line;
    return std::move(status).error();
  }
  Result<Value> value = eval_kind(expr);
  if (!value.ok() && error_line_ == 0) error_line_ = expr.line;
  return value;
}

Result<Value> Evaluator::eval_kind(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kConst: return expr.value;
    case ExprKind::kName: return eval_name(expr);
    case ExprKind::kAttribute: {
      TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
      return get_attribute(*this, value, expr.name);
    }
    case ExprKind::kItem: {
      TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
      TANDEM_ASSIGN(const Value key, eval(*expr.children[1]));
      return get_item(*this, value, key);
    }
    case ExprKind::kSlice: return eval_slice(expr);
    case ExprKind::kList:
    case ExprKind::kTuple: return eval_list(expr);
    case ExprKind::kDict: return eval_dict(expr);
    case ExprKind::kUnary: {
      TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
      return unary(expr.op, value);
    }
    case ExprKind::kBinary: return eval_binary(expr);
    case ExprKind::kCompare: return eval_compare(expr);
    case ExprKind::kConcat: return eval_concat(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: return eval_logic(expr);
    case ExprKind::kNot: {
      TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
      return Value::boolean(!truth(value));
    }
    case ExprKind::kConditional: return eval_conditional(expr);
    case ExprKind::kCall: return eval_call(expr);
    case ExprKind::kFilter: return eval_filter(expr);
    case ExprKind::kTest: return eval_test(expr);
    case ExprKind::kBlockValue: return block_values_.back();
    case ExprKind::kNamespaceRef: break;
  }
  return internal_error("an expression of an unknown kind");
}

Result<Value> Evaluator::eval_name(const Expr& expr) {
  TANDEM_TRY(step(scope_->level / 8 + static_cast<int64_t>(scope_->width() / 64)));
  if (const Value* value = scope_->find(expr.name)) return *value;
  return Value::undefined(str_format("'{}' is undefined", expr.name));
}

Result<Value> Evaluator::eval_list(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) {
    TANDEM_ASSIGN(Value item, eval(*child));
    items.push_back(std::move(item));
  }
  return expr.kind == ExprKind::kList ? list(std::move(items)) : tuple(std::move(items));
}

Result<Value> Evaluator::eval_dict(const Expr& expr) {
  auto made = std::make_shared<DictObject>(meter());
  for (size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    TANDEM_ASSIGN(Value key, eval(*expr.children[i]));
    TANDEM_ASSIGN(Value value, eval(*expr.children[i + 1]));
    if (key.is(Kind::kList) || key.is_dict()) return invalid_argument("unhashable type: '{}'", type_name(key));
    TANDEM_TRY(look_up(key, made->items.size()));
    made->set(std::move(key), std::move(value));
  }
  return dict(std::move(made));
}

Result<Value> Evaluator::eval_slice(const Expr& expr) {
  Value parts[4];
  for (size_t i = 0; i < 4; ++i) {
    if (expr.children[i] == nullptr) {
      parts[i] = Value::none();
    } else {
      TANDEM_ASSIGN(parts[i], eval(*expr.children[i]));
    }
  }
  return get_slice(*this, parts[0], parts[1], parts[2], parts[3]);
}

Result<Value> Evaluator::eval_binary(const Expr& expr) {
  TANDEM_ASSIGN(const Value left, eval(*expr.children[0]));
  TANDEM_ASSIGN(const Value right, eval(*expr.children[1]));
  return binary(*this, expr.op, left, right);
}

Result<Value> Evaluator::eval_compare(const Expr& expr) {
  TANDEM_ASSIGN(Value left, eval(*expr.children[0]));
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    TANDEM_ASSIGN(Value right, eval(*expr.children[i + 1]));
    TANDEM_ASSIGN(const bool holds, compare(*this, expr.ops[i], left, right));
    if (!holds) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Result<Value> Evaluator::eval_concat(const Expr& expr) {
  MarkedText text;
  for (const ExprPtr& child : expr.children) {
    TANDEM_ASSIGN(const Value value, eval(*child));
    TANDEM_TRY(append_str(*this, text, value));
  }
  return string(std::move(text));
}

Result<Value> Evaluator::eval_logic(const Expr& expr) {
  const bool stop_at = expr.kind == ExprKind::kOr;
  for (size_t i = 0; i + 1 < expr.children.size(); ++i) {
    TANDEM_ASSIGN(Value value, eval(*expr.children[i]));
    if (truth(value) == stop_at) return value;
  }
  return eval(*expr.children.back());
}

Result<Value> Evaluator::eval_conditional(const Expr& expr) {
  TANDEM_ASSIGN(const Value condition, eval(*expr.children[0]));
  if (truth(condition)) return eval(*expr.children[1]);
  if (expr.children[2] != nullptr) return eval(*expr.children[2]);
  return Value::undefined(
      str_format("the inline if-expression on line {} evaluated to false and no else section was defined", expr.line));
}

Status Evaluator::eval_arguments(const Arguments* arguments, Args& args) {
  if (arguments == nullptr) return ok_status();
  for (const ExprPtr& child : arguments->positional) {
    TANDEM_ASSIGN(Value value, eval(*child));
    args.positional.push_back(std::move(value));
  }
  for (const auto& [name, child] : arguments->named) {
    if (std::ranges::any_of(args.named, [&k = name](const auto& n) { return n.first == k; })) {
      return invalid_argument("the argument '{}' is given twice", name);
    }
    TANDEM_ASSIGN(Value value, eval(*child));
    args.named.emplace_back(name, std::move(value));
  }
  if (arguments->more_positional) {
    TANDEM_ASSIGN(const Value more, eval(*arguments->more_positional));
    TANDEM_ASSIGN(std::vector<Value> items, iterate(*this, more));
    args.positional.insert(args.positional.end(), items.begin(), items.end());
  }
  if (arguments->more_named) {
    TANDEM_ASSIGN(const Value more, eval(*arguments->more_named));
    if (!more.is_dict()) return invalid_argument("argument after ** must be a mapping, not {}", type_name(more));
    for (const auto& [key, value] : more.dict().items) {
      if (!key.is_string()) return invalid_argument("keywords must be strings");
      if (std::ranges::any_of(args.named, [&k = key](const auto& n) { return n.first == k.text(); })) {
        return invalid_argument("the argument '{}' is given twice", key.text());
      }
      TANDEM_TRY(step(static_cast<int64_t>(args.named.size() / 8)));
      args.named.emplace_back(key.text(), value);
    }
  }
  return ok_status();
}

Result<Value> Evaluator::eval_call(const Expr& expr) {
  TANDEM_ASSIGN(const Value callee, eval(*expr.children[0]));
  Args args;
  TANDEM_TRY(eval_arguments(expr.arguments.get(), args));
  return call(callee, args);
}

Result<Value> Evaluator::eval_filter(const Expr& expr) {
  TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
  Args args;
  TANDEM_TRY(eval_arguments(expr.arguments.get(), args));
  return call_filter(*this, expr.name, value, args);
}

Result<Value> Evaluator::eval_test(const Expr& expr) {
  TANDEM_ASSIGN(const Value value, eval(*expr.children[0]));
  Args args;
  TANDEM_TRY(eval_arguments(expr.arguments.get(), args));
  TANDEM_ASSIGN(const bool holds, call_test(*this, expr.name, value, args));
  return Value::boolean(holds);
}

}  // namespace tandem::jinja
