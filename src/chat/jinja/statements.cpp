// Executes tags.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/evaluator.h"
#include "chat/jinja/printing.h"

namespace tandem::jinja {
namespace {

constexpr int kMaxScopes = 600;

}  // namespace

Result<MarkedText> Evaluator::render(const Body& body, const Value& variables) {
  MarkedText out;
  out_ = &out;
  scope_ = std::make_shared<Scope>(nullptr, meter());
  add_globals(*this, scope_->variables);
  // The caller's variables hide the engine's, and the template's hide both.
  scope_ = std::make_shared<Scope>(scope_, meter());
  for (const auto& [key, value] : variables.dict().items) {
    if (key.is_string()) scope_->variables.emplace_back(key.text(), value);
  }
  scope_ = std::make_shared<Scope>(scope_, meter());
  auto flow = exec(body);
  scope_.reset();
  if (flow.ok()) return out;
  Error error = std::move(flow).error();
  if (raised || error_line_ == 0) return error;
  error.message = str_format("line {} of the template: {}", error_line_, error.message);
  return error;
}

Status Evaluator::check_output(size_t more) const {
  if (out_->size() + captured_ + more > limits().output) {
    return resource_exhausted("the template writes too much text (more than {} MB)", limits().output >> 20);
  }
  return ok_status();
}

Status Evaluator::write(const MarkedText& text) {
  TANDEM_TRY(check_output(text.size()));
  const size_t marks = out_->mark_bytes();
  out_->append(text);
  marks_.add(out_->mark_bytes() - marks);
  return step(static_cast<int64_t>(text.size() / 64));
}

Status Evaluator::write_own(std::string_view text) {
  TANDEM_TRY(check_output(text.size()));
  out_->append_own(text);
  return step(static_cast<int64_t>(text.size() / 64));
}

Status Evaluator::push_scope(std::shared_ptr<Scope> around) {
  scope_ = std::make_shared<Scope>(std::move(around), meter());
  if (scope_->level > kMaxScopes) return resource_exhausted("blocks of the template are nested too deeply");
  return ok_status();
}

Result<MarkedText> Evaluator::capture(const Body& body) {
  MarkedText text;
  MarkedText* const out = std::exchange(out_, &text);
  captured_ += out->size();
  const std::shared_ptr<Scope> scope = scope_;
  Status status = push_scope(scope);
  if (status.ok()) status = exec(body).status();
  captured_ -= out->size();
  out_ = out;
  scope_ = scope;
  if (!status.ok()) return std::move(status).error();
  return text;
}

Result<Evaluator::Flow> Evaluator::exec(const Body& body) {
  if (++depth_ > limits().depth) {
    return resource_exhausted("the template is nested too deeply, or a macro calls itself without end");
  }
  for (const auto& stmt : body) {
    auto flow = exec_one(*stmt);
    if (!flow.ok()) {
      if (error_line_ == 0) error_line_ = stmt->line;
      return flow;
    }
    if (*flow != Flow::kNext) {
      --depth_;
      return flow;
    }
  }
  --depth_;
  return Flow::kNext;
}

Result<Evaluator::Flow> Evaluator::exec_one(const Stmt& stmt) {
  TANDEM_TRY(step());
  switch (stmt.kind) {
    case StmtKind::kText: TANDEM_TRY(write_own(stmt.text)); break;
    case StmtKind::kPrint: TANDEM_TRY(exec_print(stmt)); break;
    case StmtKind::kSet: {
      TANDEM_ASSIGN(const Value value, eval(*stmt.expr));
      TANDEM_TRY(assign(*stmt.target, value));
      break;
    }
    case StmtKind::kSetBlock: TANDEM_TRY(exec_set_block(stmt)); break;
    case StmtKind::kFor: return exec_for(stmt);
    case StmtKind::kIf: return exec_if(stmt);
    case StmtKind::kMacro: TANDEM_TRY(exec_macro(stmt)); break;
    case StmtKind::kCallBlock: TANDEM_TRY(exec_call_block(stmt)); break;
    case StmtKind::kFilterBlock: {
      TANDEM_ASSIGN(MarkedText text, capture(stmt.body));
      block_values_.push_back(string(std::move(text)));
      auto value = eval(*stmt.expr);
      block_values_.pop_back();
      if (!value.ok()) return std::move(value).error();
      TANDEM_ASSIGN(const MarkedText filtered, to_str(*this, *value));
      TANDEM_TRY(write(filtered));
      break;
    }
    case StmtKind::kWith:
    case StmtKind::kScope: return exec_scoped(stmt);
    case StmtKind::kBreak: return Flow::kBreak;
    case StmtKind::kContinue: return Flow::kContinue;
  }
  return Flow::kNext;
}

Status Evaluator::exec_print(const Stmt& stmt) {
  TANDEM_ASSIGN(const Value value, eval(*stmt.expr));
  if (value.is_string()) return write(value.marked());
  TANDEM_ASSIGN(const MarkedText text, to_str(*this, value));
  return write(text);
}

Status Evaluator::exec_set_block(const Stmt& stmt) {
  TANDEM_ASSIGN(MarkedText text, capture(stmt.body));
  block_values_.push_back(string(std::move(text)));
  auto value = eval(*stmt.expr);
  block_values_.pop_back();
  if (!value.ok()) return std::move(value).error();
  return assign(*stmt.target, *value);
}

Result<Evaluator::Flow> Evaluator::exec_if(const Stmt& stmt) {
  for (const auto& [condition, body] : stmt.branches) {
    TANDEM_ASSIGN(const Value value, eval(*condition));
    if (truth(value)) return exec(body);
  }
  return exec(stmt.otherwise);
}

Result<Evaluator::Flow> Evaluator::exec_for(const Stmt& stmt) {
  TANDEM_ASSIGN(const Value iterable, eval(*stmt.expr));
  const std::shared_ptr<Scope> scope = scope_;
  const Status status = run_loop(stmt, iterable, 0);
  scope_ = scope;
  if (!status.ok()) return status.error();
  return Flow::kNext;
}

// Removes the items for which `for … if` does not hold.
Status Evaluator::filter_items(const Stmt& stmt, std::vector<Value>& items) {
  const std::shared_ptr<Scope> around = scope_;
  std::vector<Value> kept;
  for (Value& item : items) {
    TANDEM_TRY(push_scope(around));
    TANDEM_TRY(assign(*stmt.target, item));
    TANDEM_ASSIGN(const Value holds, eval(*stmt.condition));
    if (truth(holds)) kept.push_back(std::move(item));
  }
  scope_ = around;
  items = std::move(kept);
  return ok_status();
}

Status Evaluator::run_loop(const Stmt& stmt, const Value& iterable, int level) {
  const std::shared_ptr<Scope> around = scope_;
  auto loop = std::make_shared<LoopObject>(meter(), sizeof(LoopObject));
  TANDEM_ASSIGN(loop->items, iterate(*this, iterable));
  loop->charge.add(bytes_of(loop->items));
  if (stmt.condition) TANDEM_TRY(filter_items(stmt, loop->items));
  if (loop->items.empty()) {
    TANDEM_TRY(push_scope(around));
    return exec(stmt.otherwise).status();
  }
  for (const Value& item : loop->items) loop->depth = std::max(loop->depth, item.depth() + 1);
  loop->level = level;
  if (stmt.recursive) {
    loop->statement = &stmt;
    loop->scope = around;
    kept_scopes_.push_back(around);
  }
  TANDEM_ASSIGN(const Value loop_value, checked(Value::object(Kind::kLoop, loop)));
  for (size_t i = 0; i < loop->items.size(); ++i) {
    TANDEM_TRY(step(4));  // A scope, and a variable in it.
    loop->index = i;
    TANDEM_TRY(push_scope(around));
    scope_->set("loop", loop_value);
    TANDEM_TRY(assign(*stmt.target, loop->items[i]));
    TANDEM_ASSIGN(const Flow flow, exec(stmt.body));
    if (flow == Flow::kBreak) break;
  }
  return ok_status();
}

// {% with %} and {% generation %}.
Result<Evaluator::Flow> Evaluator::exec_scoped(const Stmt& stmt) {
  const std::shared_ptr<Scope> around = scope_;
  std::vector<Value> values;
  for (const auto& [target, expr] : stmt.assignments) {
    TANDEM_ASSIGN(Value value, eval(*expr));
    values.push_back(std::move(value));
  }
  TANDEM_TRY(push_scope(around));
  for (size_t i = 0; i < values.size(); ++i) TANDEM_TRY(assign(*stmt.assignments[i].first, values[i]));
  auto flow = exec(stmt.body);
  scope_ = around;
  return flow;
}

Result<Value> Evaluator::make_macro(const Stmt& stmt, std::string_view name) {
  auto macro = std::make_shared<MacroObject>(meter());
  macro->definition = &stmt;
  macro->name = name;
  macro->scope = scope_;
  if (kept_scopes_.empty() || kept_scopes_.back() != scope_) {
    kept_scopes_.push_back(scope_);
    TANDEM_TRY(reserve_memory(0));
  }
  return Value::object(Kind::kMacro, std::move(macro));
}

Status Evaluator::exec_macro(const Stmt& stmt) {
  TANDEM_ASSIGN(Value macro, make_macro(stmt, stmt.text));
  scope_->set(stmt.text, std::move(macro));
  return ok_status();
}

Status Evaluator::exec_call_block(const Stmt& stmt) {
  const Expr& expr = *stmt.expr;
  TANDEM_ASSIGN(const Value callee, eval(*expr.children[0]));
  Args args;
  TANDEM_TRY(eval_arguments(expr.arguments.get(), args));
  TANDEM_ASSIGN(Value caller, make_macro(stmt, "caller"));
  args.named.emplace_back("caller", std::move(caller));
  TANDEM_ASSIGN(const Value value, call(callee, args));
  TANDEM_ASSIGN(const MarkedText text, to_str(*this, value));
  return write(text);
}

Status Evaluator::assign(const Expr& target, const Value& value) {
  TANDEM_TRY(step(static_cast<int64_t>(scope_->variables.size() / 16)));
  if (target.kind == ExprKind::kName) {
    scope_->set(target.name, value);
    return ok_status();
  }
  if (target.kind == ExprKind::kNamespaceRef) {
    const Value* ns = scope_->find(target.name);
    if (ns == nullptr || !ns->is(Kind::kNamespace)) {
      return invalid_argument("cannot assign attribute on non-namespace object '{}'", target.name);
    }
    auto& object = ns->as<NamespaceObject>();
    object.depth = std::max(object.depth, value.depth() + (value.shared() == ns->shared() ? 0 : 1));
    TANDEM_TRY(checked(*ns).status());
    TANDEM_TRY(step(static_cast<int64_t>(object.attributes.size() / 16 + scope_->width() / 16)));
    for (auto& [key, old] : object.attributes) {
      if (key == target.attribute) {
        old = value;
        return ok_status();
      }
    }
    object.charge.add(2 * (sizeof(Value) + sizeof(std::string)));
    object.attributes.emplace_back(target.attribute, value);
    return ok_status();
  }
  TANDEM_ASSIGN(const std::vector<Value> items, iterate(*this, value));
  if (items.size() != target.children.size()) {
    return invalid_argument("there are {} values to unpack, but {} names for them", items.size(),
                            target.children.size());
  }
  for (size_t i = 0; i < items.size(); ++i) TANDEM_TRY(assign(*target.children[i], items[i]));
  return ok_status();
}

}  // namespace tandem::jinja
