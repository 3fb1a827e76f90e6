// Runs a parsed template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/runtime.h"

namespace tandem::jinja {

// Variables of a block, and the enclosing block. Macros keep the scope that they were defined in.
struct Scope : std::enable_shared_from_this<Scope> {
  Scope(std::shared_ptr<Scope> around, Meter* meter)
      : parent(std::move(around)), level(parent ? parent->level + 1 : 0), charge(meter, sizeof(Scope)) {}
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
  // How many variables find() may have to examine.
  size_t width() const;

  std::shared_ptr<Scope> parent;
  int level;
  std::vector<std::pair<std::string, Value>> variables;
  Charge charge;
};

struct MacroObject final : Object {
  explicit MacroObject(Meter* meter) : Object(meter, sizeof(MacroObject)) {}
  const Stmt* definition = nullptr;
  std::string_view name;
  std::shared_ptr<Scope> scope;
};

class Evaluator final : public Runtime {
 public:
  explicit Evaluator(const RenderOptions& options) : Runtime(options) {}
  ~Evaluator() override;

  Result<MarkedText> render(const Body& body, const Value& variables);
  Result<Value> call(const Value& callee, Args& args) override;

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Deeper;

  // Expressions (evaluator.cpp).
  Result<Value> eval(const Expr& expr);
  Result<Value> eval_kind(const Expr& expr);
  Result<Value> eval_name(const Expr& expr);
  Result<Value> eval_list(const Expr& expr);
  Result<Value> eval_dict(const Expr& expr);
  Result<Value> eval_slice(const Expr& expr);
  Result<Value> eval_binary(const Expr& expr);
  Result<Value> eval_compare(const Expr& expr);
  Result<Value> eval_concat(const Expr& expr);
  Result<Value> eval_logic(const Expr& expr);
  Result<Value> eval_conditional(const Expr& expr);
  Result<Value> eval_call(const Expr& expr);
  Result<Value> eval_filter(const Expr& expr);
  Result<Value> eval_test(const Expr& expr);
  Status eval_arguments(const Arguments* arguments, Args& args);

  // Statements (statements.cpp).
  Result<Flow> exec(const Body& body);
  Result<Flow> exec_one(const Stmt& stmt);
  Status exec_print(const Stmt& stmt);
  Status exec_set_block(const Stmt& stmt);
  Result<Flow> exec_if(const Stmt& stmt);
  Result<Flow> exec_for(const Stmt& stmt);
  Status run_loop(const Stmt& stmt, const Value& iterable, int level);
  Status filter_items(const Stmt& stmt, std::vector<Value>& items);
  Result<Flow> exec_scoped(const Stmt& stmt);
  Status exec_macro(const Stmt& stmt);
  Status exec_call_block(const Stmt& stmt);
  Result<Value> make_macro(const Stmt& stmt, std::string_view name);
  Status assign(const Expr& target, const Value& value);
  Status push_scope(std::shared_ptr<Scope> around);
  Status write(const MarkedText& text);
  Status write_own(std::string_view text);
  Status check_output(size_t more) const;
  // The text that a body writes, in a scope of its own.
  Result<MarkedText> capture(const Body& body);

  // Calls (calls.cpp).
  Result<Value> call_macro(const MacroObject& macro, Args& args);
  Status bind_macro(const MacroObject& macro, Args& args, Scope& scope);
  Result<Value> call_loop(const Value& loop, Args& args);

  std::shared_ptr<Scope> scope_;
  MarkedText* out_ = nullptr;
  size_t captured_ = 0;       // Bytes in outputs other than the current one.
  Charge marks_{meter(), 0};  // For everything written.
  int depth_ = 0;
  int error_line_ = 0;
  std::vector<Value> block_values_;
  // Objects that can contain themselves: kept to the end and then emptied, so that nothing leaks.
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  std::vector<std::shared_ptr<Object>> kept_namespaces_;

  friend Result<Value> make_namespace(Runtime& rt, const Value& self, Args& args);
};

}  // namespace tandem::jinja
