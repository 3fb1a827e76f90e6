#include "chat/jinja/parser.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace tandem::jinja {
namespace {

// Counts a level of recursion during its lifetime.
class Level {
 public:
  explicit Level(int& depth) : depth_(depth) { ++depth_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --depth_; }

 private:
  int& depth_;
};

int depth_of(const ExprPtr& expr) { return expr ? expr->depth : 0; }

}  // namespace

std::string_view op_text(Op op) {
  constexpr std::string_view kTexts[] = {"+",  "-",  "*", "/",  "//", "%",  "** or pow()", "-",     "+",
                                         "==", "!=", "<", "<=", ">",  ">=", "in",          "not in"};
  return kTexts[static_cast<size_t>(op)];
}

bool Parser::skip_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  next();
  return true;
}

bool Parser::skip_operator(std::string_view op) {
  if (!current().is_operator(op)) return false;
  next();
  return true;
}

Error Parser::fail(std::string message, ErrorCode code) const {
  return error_at(current().line, std::move(message), code);
}

Status Parser::expect_operator(std::string_view op) {
  if (skip_operator(op)) return ok_status();
  return fail(str_format("expected '{}', but there is {}", op, current().describe()));
}

Status Parser::expect_name(std::string_view name) {
  if (skip_name(name)) return ok_status();
  return fail(str_format("expected '{}', but there is {}", name, current().describe()));
}

Status Parser::expect_kind(TokenKind kind, std::string_view what) {
  if (current().kind != kind) return fail(str_format("expected {}, but there is {}", what, current().describe()));
  next();
  return ok_status();
}

Result<std::string> Parser::any_name() {
  if (current().kind != TokenKind::kName) return fail("expected a name, but there is " + current().describe());
  std::string name = current().text;
  next();
  return name;
}

Result<std::string> Parser::dotted_name() {
  TANDEM_ASSIGN(std::string name, any_name());
  while (skip_operator(".")) {
    TANDEM_ASSIGN(const std::string part, any_name());
    name += "." + part;
  }
  return name;
}

ExprPtr Parser::make(ExprKind kind, int line) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  return expr;
}

Result<ExprPtr> Parser::finish(ExprPtr expr) const {
  int depth = 0;
  for (const ExprPtr& child : expr->children) depth = std::max(depth, depth_of(child));
  if (expr->arguments) {
    for (const ExprPtr& child : expr->arguments->positional) depth = std::max(depth, depth_of(child));
    for (const auto& [name, child] : expr->arguments->named) depth = std::max(depth, depth_of(child));
    depth = std::max({depth, depth_of(expr->arguments->more_positional), depth_of(expr->arguments->more_named)});
  }
  expr->depth = depth + 1;
  if (expr->depth > kMaxDepth) return fail("this expression is nested too deeply", ErrorCode::kResourceExhausted);
  return expr;
}

// One or more expressions with commas between them; a comma makes a tuple.
Result<ExprPtr> Parser::parse_tuple(bool simplified, bool with_conditional, std::string_view end, bool parentheses,
                                    bool with_namespace) {
  const int line = current().line;
  ExprPtr tuple = make(ExprKind::kTuple, line);
  bool comma = false;
  for (;;) {
    if (!tuple->children.empty()) TANDEM_TRY(expect_operator(","));
    const TokenKind kind = current().kind;
    if (kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || current().is_operator(")")) break;
    if (!end.empty() && current().is_name(end)) break;
    TANDEM_ASSIGN(ExprPtr item, simplified         ? parse_primary(with_namespace)
                                : with_conditional ? parse_expression()
                                                   : parse_or());
    tuple->children.push_back(std::move(item));
    if (!current().is_operator(",")) break;
    comma = true;
  }
  if (!comma) {
    if (!tuple->children.empty()) return std::move(tuple->children[0]);
    if (!parentheses) return fail("expected an expression, but there is " + current().describe());
  }
  return finish(std::move(tuple));
}

Result<ExprPtr> Parser::parse_expression() {
  const Level level(nesting_);
  if (nesting_ > kMaxDepth) return fail("this is nested too deeply", ErrorCode::kResourceExhausted);
  TANDEM_ASSIGN(ExprPtr expr, parse_or());
  while (current().is_name("if")) {
    ExprPtr conditional = make(ExprKind::kConditional, current().line);
    next();
    TANDEM_ASSIGN(ExprPtr condition, parse_or());
    ExprPtr otherwise;
    if (skip_name("else")) {
      TANDEM_ASSIGN(otherwise, parse_expression());
    }
    conditional->children.push_back(std::move(condition));
    conditional->children.push_back(std::move(expr));
    conditional->children.push_back(std::move(otherwise));
    TANDEM_ASSIGN(expr, finish(std::move(conditional)));
  }
  return expr;
}

Result<ExprPtr> Parser::parse_or() {
  TANDEM_ASSIGN(ExprPtr left, parse_and());
  if (!current().is_name("or")) return left;
  ExprPtr expr = make(ExprKind::kOr, current().line);
  expr->children.push_back(std::move(left));
  while (skip_name("or")) {
    TANDEM_ASSIGN(ExprPtr right, parse_and());
    expr->children.push_back(std::move(right));
  }
  return finish(std::move(expr));
}

Result<ExprPtr> Parser::parse_and() {
  TANDEM_ASSIGN(ExprPtr left, parse_not());
  if (!current().is_name("and")) return left;
  ExprPtr expr = make(ExprKind::kAnd, current().line);
  expr->children.push_back(std::move(left));
  while (skip_name("and")) {
    TANDEM_ASSIGN(ExprPtr right, parse_not());
    expr->children.push_back(std::move(right));
  }
  return finish(std::move(expr));
}

Result<ExprPtr> Parser::parse_not() {
  if (!current().is_name("not")) return parse_compare();
  const Level level(nesting_);
  if (nesting_ > kMaxDepth) return fail("this is nested too deeply", ErrorCode::kResourceExhausted);
  ExprPtr expr = make(ExprKind::kNot, current().line);
  next();
  TANDEM_ASSIGN(ExprPtr inner, parse_not());
  expr->children.push_back(std::move(inner));
  return finish(std::move(expr));
}

Result<ExprPtr> Parser::parse_compare() {
  constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::kEq}, {"!=", Op::kNe}, {"<", Op::kLt},
                                                      {"<=", Op::kLe}, {">", Op::kGt},  {">=", Op::kGe}};
  TANDEM_ASSIGN(ExprPtr left, parse_sum());
  ExprPtr expr = make(ExprKind::kCompare, current().line);
  expr->children.push_back(std::move(left));
  for (;;) {
    const auto* op = std::ranges::find_if(kOps, [&](const auto& o) { return current().is_operator(o.first); });
    if (op != std::end(kOps)) {
      expr->ops.push_back(op->second);
      next();
    } else if (skip_name("in")) {
      expr->ops.push_back(Op::kIn);
    } else if (current().is_name("not") && look().is_name("in")) {
      next();
      next();
      expr->ops.push_back(Op::kNotIn);
    } else {
      break;
    }
    TANDEM_ASSIGN(ExprPtr right, parse_sum());
    expr->children.push_back(std::move(right));
  }
  if (expr->ops.empty()) return std::move(expr->children[0]);
  return finish(std::move(expr));
}

// a op b op c, left-associative.
template <typename Next>
Result<ExprPtr> Parser::parse_chain(Next next_part, std::initializer_list<std::pair<std::string_view, Op>> operators) {
  TANDEM_ASSIGN(ExprPtr left, next_part());
  for (;;) {
    const auto* op = std::ranges::find_if(operators, [&](const auto& o) { return current().is_operator(o.first); });
    if (op == operators.end()) return left;
    ExprPtr expr = make(ExprKind::kBinary, current().line);
    expr->op = op->second;
    next();
    TANDEM_ASSIGN(ExprPtr right, next_part());
    expr->children.push_back(std::move(left));
    expr->children.push_back(std::move(right));
    TANDEM_ASSIGN(left, finish(std::move(expr)));
  }
}

Result<ExprPtr> Parser::parse_sum() {
  return parse_chain([this] { return parse_concat(); }, {{"+", Op::kAdd}, {"-", Op::kSub}});
}

Result<ExprPtr> Parser::parse_concat() {
  TANDEM_ASSIGN(ExprPtr first, parse_product());
  if (!current().is_operator("~")) return first;
  ExprPtr expr = make(ExprKind::kConcat, current().line);
  expr->children.push_back(std::move(first));
  while (skip_operator("~")) {
    TANDEM_ASSIGN(ExprPtr part, parse_product());
    expr->children.push_back(std::move(part));
  }
  return finish(std::move(expr));
}

Result<ExprPtr> Parser::parse_product() {
  return parse_chain([this] { return parse_power(); },
                     {{"*", Op::kMul}, {"/", Op::kDiv}, {"//", Op::kFloorDiv}, {"%", Op::kMod}});
}

Result<ExprPtr> Parser::parse_power() {
  return parse_chain([this] { return parse_unary(true); }, {{"**", Op::kPow}});
}

Result<ExprPtr> Parser::parse_unary(bool with_filter) {
  const Level level(nesting_);
  if (nesting_ > kMaxDepth) return fail("this is nested too deeply", ErrorCode::kResourceExhausted);
  ExprPtr expr;
  if (current().is_operator("-") || current().is_operator("+")) {
    ExprPtr unary = make(ExprKind::kUnary, current().line);
    unary->op = current().is_operator("-") ? Op::kNeg : Op::kPos;
    next();
    TANDEM_ASSIGN(ExprPtr inner, parse_unary(false));
    unary->children.push_back(std::move(inner));
    TANDEM_ASSIGN(expr, finish(std::move(unary)));
  } else {
    TANDEM_ASSIGN(expr, parse_primary());
  }
  TANDEM_ASSIGN(expr, parse_postfix(std::move(expr)));
  if (!with_filter) return expr;
  return parse_filters(std::move(expr));
}

Result<ExprPtr> Parser::parse_primary(bool with_namespace) {
  const Token token = current();
  ExprPtr expr = make(ExprKind::kConst, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      next();
      if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
        expr->value = Value::boolean(token.text == "true" || token.text == "True");
      } else if (token.text == "none" || token.text == "None") {
        expr->value = Value::none();
      } else if (with_namespace && skip_operator(".")) {
        expr->kind = ExprKind::kNamespaceRef;
        expr->name = token.text;
        TANDEM_ASSIGN(expr->attribute, any_name());
      } else {
        expr->kind = ExprKind::kName;
        expr->name = token.text;
        if (!macros_.empty()) {
          macros_.back().varargs |= token.text == "varargs";
          macros_.back().kwargs |= token.text == "kwargs";
          macros_.back().caller |= token.text == "caller";
        }
      }
      return expr;
    case TokenKind::kString: {
      std::string text;
      for (; current().kind == TokenKind::kString; next()) text += current().text;
      expr->value = Value::literal(std::move(text));
      return expr;
    }
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      next();
      expr->value = token.value;
      return expr;
    default: break;
  }
  const Level level(nesting_);
  if (nesting_ > kMaxDepth) return fail("this is nested too deeply", ErrorCode::kResourceExhausted);
  if (skip_operator("(")) {
    TANDEM_ASSIGN(ExprPtr inner, parse_tuple(false, true, "", true));
    TANDEM_TRY(expect_operator(")"));
    return inner;
  }
  if (token.is_operator("[")) return parse_list();
  if (token.is_operator("{")) return parse_dict();
  return fail("unexpected " + token.describe());
}

Result<ExprPtr> Parser::parse_list() {
  ExprPtr list = make(ExprKind::kList, current().line);
  next();
  while (!current().is_operator("]")) {
    if (!list->children.empty()) TANDEM_TRY(expect_operator(","));
    if (current().is_operator("]")) break;
    TANDEM_ASSIGN(ExprPtr item, parse_expression());
    list->children.push_back(std::move(item));
  }
  TANDEM_TRY(expect_operator("]"));
  return finish(std::move(list));
}

Result<ExprPtr> Parser::parse_dict() {
  ExprPtr dict = make(ExprKind::kDict, current().line);
  next();
  while (!current().is_operator("}")) {
    if (!dict->children.empty()) TANDEM_TRY(expect_operator(","));
    if (current().is_operator("}")) break;
    TANDEM_ASSIGN(ExprPtr key, parse_expression());
    TANDEM_TRY(expect_operator(":"));
    TANDEM_ASSIGN(ExprPtr value, parse_expression());
    dict->children.push_back(std::move(key));
    dict->children.push_back(std::move(value));
  }
  TANDEM_TRY(expect_operator("}"));
  return finish(std::move(dict));
}

}  // namespace tandem::jinja
