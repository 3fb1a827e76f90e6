// The tags of {% … %}.
#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/parser.h"

namespace tandem::jinja {

Result<Body> Parser::parse() {
  TANDEM_ASSIGN(Body body, parse_body({}));
  return body;
}

// Up to one of the end tags, whose name is then the current token.
Result<Body> Parser::parse_body(std::initializer_list<std::string_view> ends) {
  Body body;
  if (++nesting_ > kMaxDepth) return fail("this is nested too deeply", ErrorCode::kResourceExhausted);
  while (current().kind != TokenKind::kEnd) {
    const int line = current().line;
    if (current().kind == TokenKind::kData) {
      auto text = std::make_unique<Stmt>();
      text->line = line;
      text->text = current().text;
      body.push_back(std::move(text));
      next();
    } else if (current().kind == TokenKind::kVariableBegin) {
      next();
      auto print = std::make_unique<Stmt>();
      print->kind = StmtKind::kPrint;
      print->line = line;
      TANDEM_ASSIGN(print->expr, parse_tuple(false, true, "", false));
      TANDEM_TRY(expect_kind(TokenKind::kVariableEnd, "'}}'"));
      body.push_back(std::move(print));
    } else {
      TANDEM_TRY(expect_kind(TokenKind::kBlockBegin, "a tag"));
      if (std::ranges::any_of(ends, [&](std::string_view end) { return current().is_name(end); })) {
        --nesting_;
        return body;
      }
      TANDEM_ASSIGN(auto stmt, parse_statement());
      if (stmt) body.push_back(std::move(stmt));
      TANDEM_TRY(expect_kind(TokenKind::kBlockEnd, "'%}'"));
    }
  }
  if (ends.size() > 0) {
    return fail(str_format("the template ends, but {{% {} %}} is missing", *(ends.end() - 1)));
  }
  --nesting_;
  return body;
}

Result<Body> Parser::parse_block(std::initializer_list<std::string_view> ends) {
  skip_operator(":");
  TANDEM_TRY(expect_kind(TokenKind::kBlockEnd, "'%}'"));
  return parse_body(ends);
}

Result<std::unique_ptr<Stmt>> Parser::parse_statement() {
  const Token tag = current();
  if (tag.kind != TokenKind::kName) return fail("expected the name of a tag, but there is " + tag.describe());
  auto stmt = std::make_unique<Stmt>();
  stmt->line = tag.line;
  next();
  if (tag.text == "set") {
    TANDEM_TRY(parse_set(*stmt));
  } else if (tag.text == "for") {
    TANDEM_TRY(parse_for(*stmt));
  } else if (tag.text == "if") {
    TANDEM_TRY(parse_if(*stmt));
  } else if (tag.text == "with") {
    TANDEM_TRY(parse_with(*stmt));
  } else if (tag.text == "macro") {
    TANDEM_TRY(parse_macro(*stmt));
  } else if (tag.text == "call") {
    TANDEM_TRY(parse_call_block(*stmt));
  } else if (tag.text == "filter") {
    stmt->kind = StmtKind::kFilterBlock;
    TANDEM_ASSIGN(stmt->expr, parse_filter(make(ExprKind::kBlockValue, tag.line)));
    while (skip_operator("|")) {
      TANDEM_ASSIGN(stmt->expr, parse_filter(std::move(stmt->expr)));
    }
    TANDEM_ASSIGN(stmt->body, parse_block({"endfilter"}));
    next();
  } else if (tag.text == "generation") {
    stmt->kind = StmtKind::kScope;
    TANDEM_ASSIGN(stmt->body, parse_block({"endgeneration"}));
    next();
  } else if (tag.text == "print") {
    stmt->kind = StmtKind::kPrint;
    TANDEM_ASSIGN(stmt->expr, parse_expression());
  } else if (tag.text == "break" || tag.text == "continue") {
    stmt->kind = tag.text == "break" ? StmtKind::kBreak : StmtKind::kContinue;
    if (loops_ == 0) return error_at(tag.line, "'" + tag.text + "' is outside of a loop", ErrorCode::kCorrupt);
  } else {
    for (const char* known : {"include", "import", "from", "extends", "block", "autoescape", "do", "trans", "debug"}) {
      if (tag.text != known) continue;
      return error_at(tag.line, str_format("{{% {} %}} is not supported in chat templates", known),
                      ErrorCode::kUnsupported);
    }
    return error_at(tag.line, str_format("unknown tag '{}'", tag.text.substr(0, 40)), ErrorCode::kCorrupt);
  }
  return stmt;
}

Status Parser::check_target(const Expr& target) const {
  if (target.kind == ExprKind::kName || target.kind == ExprKind::kNamespaceRef) return ok_status();
  if (target.kind != ExprKind::kTuple) return error_at(target.line, "this cannot be assigned to", ErrorCode::kCorrupt);
  for (const ExprPtr& child : target.children) TANDEM_TRY(check_target(*child));
  return ok_status();
}

Result<ExprPtr> Parser::parse_target(bool with_namespace, std::string_view end) {
  TANDEM_ASSIGN(ExprPtr target, parse_tuple(true, true, end, false, with_namespace));
  TANDEM_TRY(check_target(*target));
  return target;
}

Status Parser::parse_set(Stmt& stmt) {
  TANDEM_ASSIGN(stmt.target, parse_target(true, ""));
  if (skip_operator("=")) {
    stmt.kind = StmtKind::kSet;
    TANDEM_ASSIGN(stmt.expr, parse_tuple(false, true, "", false));
    return ok_status();
  }
  stmt.kind = StmtKind::kSetBlock;
  stmt.expr = make(ExprKind::kBlockValue, stmt.line);
  while (skip_operator("|")) {
    TANDEM_ASSIGN(stmt.expr, parse_filter(std::move(stmt.expr)));
  }
  TANDEM_ASSIGN(stmt.body, parse_block({"endset"}));
  next();
  return ok_status();
}

Status Parser::parse_for(Stmt& stmt) {
  stmt.kind = StmtKind::kFor;
  TANDEM_ASSIGN(stmt.target, parse_target(false, "in"));
  TANDEM_TRY(expect_name("in"));
  TANDEM_ASSIGN(stmt.expr, parse_tuple(false, false, "recursive", false));
  if (skip_name("if")) {
    TANDEM_ASSIGN(stmt.condition, parse_expression());
  }
  stmt.recursive = skip_name("recursive");
  ++loops_;
  TANDEM_ASSIGN(stmt.body, parse_block({"else", "endfor"}));
  --loops_;
  if (skip_name("else")) {
    TANDEM_ASSIGN(stmt.otherwise, parse_block({"endfor"}));
  }
  next();
  return ok_status();
}

Status Parser::parse_if(Stmt& stmt) {
  stmt.kind = StmtKind::kIf;
  for (;;) {
    TANDEM_ASSIGN(ExprPtr condition, parse_tuple(false, false, "", false));
    TANDEM_ASSIGN(Body body, parse_block({"elif", "else", "endif"}));
    stmt.branches.emplace_back(std::move(condition), std::move(body));
    if (skip_name("elif")) continue;
    if (skip_name("else")) {
      TANDEM_ASSIGN(stmt.otherwise, parse_block({"endif"}));
    }
    next();
    return ok_status();
  }
}

Status Parser::parse_with(Stmt& stmt) {
  stmt.kind = StmtKind::kWith;
  while (current().kind != TokenKind::kBlockEnd) {
    if (!stmt.assignments.empty()) TANDEM_TRY(expect_operator(","));
    TANDEM_ASSIGN(ExprPtr target, parse_target(false, ""));
    TANDEM_TRY(expect_operator("="));
    TANDEM_ASSIGN(ExprPtr value, parse_expression());
    stmt.assignments.emplace_back(std::move(target), std::move(value));
  }
  TANDEM_ASSIGN(stmt.body, parse_block({"endwith"}));
  next();
  return ok_status();
}

Status Parser::parse_signature(Stmt& stmt) {
  TANDEM_TRY(expect_operator("("));
  while (!current().is_operator(")")) {
    if (!stmt.parameters.empty()) TANDEM_TRY(expect_operator(","));
    Parameter parameter;
    TANDEM_ASSIGN(parameter.name, any_name());
    if (skip_operator("=")) {
      TANDEM_ASSIGN(parameter.fallback, parse_expression());
    } else if (!stmt.parameters.empty() && stmt.parameters.back().fallback) {
      return fail("a parameter without a default follows one with a default");
    }
    stmt.parameters.push_back(std::move(parameter));
  }
  return expect_operator(")");
}

Status Parser::parse_macro_body(Stmt& stmt, std::string_view end) {
  const int loops = std::exchange(loops_, 0);
  macros_.emplace_back();
  TANDEM_ASSIGN(stmt.body, parse_block({end}));
  next();
  const Names names = macros_.back();
  macros_.pop_back();
  loops_ = loops;
  stmt.uses_varargs = names.varargs;
  stmt.uses_kwargs = names.kwargs;
  stmt.uses_caller = names.caller;
  if (!macros_.empty()) macros_.back().caller |= names.caller;  // The inner one sees the outer one's variables.
  return ok_status();
}

Status Parser::parse_macro(Stmt& stmt) {
  stmt.kind = StmtKind::kMacro;
  TANDEM_ASSIGN(stmt.text, any_name());
  TANDEM_TRY(parse_signature(stmt));
  return parse_macro_body(stmt, "endmacro");
}

Status Parser::parse_call_block(Stmt& stmt) {
  stmt.kind = StmtKind::kCallBlock;
  if (current().is_operator("(")) TANDEM_TRY(parse_signature(stmt));
  TANDEM_ASSIGN(stmt.expr, parse_expression());
  if (stmt.expr->kind != ExprKind::kCall) return error_at(stmt.line, "{% call %} needs a call", ErrorCode::kCorrupt);
  return parse_macro_body(stmt, "endcall");
}

}  // namespace tandem::jinja
