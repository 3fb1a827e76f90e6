// What follows a value: attributes, items, calls, filters, tests.
#include "base/error.h"
#include "chat/jinja/parser.h"

namespace tandem::jinja {

Result<ExprPtr> Parser::parse_postfix(ExprPtr expr) {
  for (;;) {
    if (current().is_operator(".") || current().is_operator("[")) {
      TANDEM_ASSIGN(expr, parse_subscript(std::move(expr)));
    } else if (current().is_operator("(")) {
      TANDEM_ASSIGN(expr, parse_call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> Parser::parse_filters(ExprPtr expr) {
  for (;;) {
    if (skip_operator("|")) {
      TANDEM_ASSIGN(expr, parse_filter(std::move(expr)));
    } else if (current().is_name("is")) {
      TANDEM_ASSIGN(expr, parse_test(std::move(expr)));
    } else if (current().is_operator("(")) {
      TANDEM_ASSIGN(expr, parse_call(std::move(expr)));
    } else {
      return expr;
    }
  }
}

Result<ExprPtr> Parser::parse_subscript(ExprPtr expr) {
  const int line = current().line;
  if (skip_operator(".")) {
    ExprPtr access = make(ExprKind::kAttribute, line);
    const Token token = current();
    next();
    access->children.push_back(std::move(expr));
    if (token.kind == TokenKind::kName) {
      access->name = token.text;
    } else if (token.kind == TokenKind::kInteger) {
      access->kind = ExprKind::kItem;
      ExprPtr index = make(ExprKind::kConst, line);
      index->value = token.value;
      access->children.push_back(std::move(index));
    } else {
      return error_at(token.line, "expected a name or a number after the dot, but there is " + token.describe(),
                      ErrorCode::kCorrupt);
    }
    return finish(std::move(access));
  }
  next();
  ExprPtr item = make(ExprKind::kItem, line);
  item->children.push_back(std::move(expr));
  // One part without colons is an item; with colons it is a slice.
  const auto ends = [this] { return current().is_operator("]") || current().is_operator(","); };
  if (!current().is_operator(":")) {
    if (current().is_operator("]")) {
      return fail("expected an index");
    }
    TANDEM_ASSIGN(ExprPtr index, parse_expression());
    item->children.push_back(std::move(index));
  } else {
    item->children.push_back(nullptr);
  }
  if (current().is_operator(":")) {
    item->kind = ExprKind::kSlice;
    while (item->children.size() < 4) {
      ExprPtr part;
      if (skip_operator(":") && !ends() && !current().is_operator(":")) {
        TANDEM_ASSIGN(part, parse_expression());
      }
      item->children.push_back(std::move(part));
    }
  } else if (current().is_operator(",")) {
    ExprPtr tuple = make(ExprKind::kTuple, line);
    tuple->children.push_back(std::move(item->children[1]));
    while (skip_operator(",")) {
      TANDEM_ASSIGN(ExprPtr part, parse_expression());
      tuple->children.push_back(std::move(part));
    }
    TANDEM_ASSIGN(item->children[1], finish(std::move(tuple)));
  }
  TANDEM_TRY(expect_operator("]"));
  return finish(std::move(item));
}

Result<std::unique_ptr<Arguments>> Parser::parse_arguments() {
  auto arguments = std::make_unique<Arguments>();
  TANDEM_TRY(expect_operator("("));
  bool first = true;
  const auto misplaced = [this] { return fail("the arguments of this call are in the wrong order"); };
  while (!current().is_operator(")")) {
    if (!first) {
      TANDEM_TRY(expect_operator(","));
      if (current().is_operator(")")) break;
    }
    first = false;
    if (skip_operator("*")) {
      if (arguments->more_positional || arguments->more_named) return misplaced();
      TANDEM_ASSIGN(arguments->more_positional, parse_expression());
    } else if (skip_operator("**")) {
      if (arguments->more_named) return misplaced();
      TANDEM_ASSIGN(arguments->more_named, parse_expression());
    } else if (current().kind == TokenKind::kName && look().is_operator("=")) {
      if (arguments->more_named) return misplaced();
      std::string name = current().text;
      next();
      next();
      TANDEM_ASSIGN(ExprPtr value, parse_expression());
      arguments->named.emplace_back(std::move(name), std::move(value));
    } else {
      if (arguments->more_positional || arguments->more_named || !arguments->named.empty()) return misplaced();
      TANDEM_ASSIGN(ExprPtr value, parse_expression());
      arguments->positional.push_back(std::move(value));
    }
  }
  TANDEM_TRY(expect_operator(")"));
  return arguments;
}

Result<ExprPtr> Parser::parse_call(ExprPtr expr) {
  ExprPtr call = make(ExprKind::kCall, current().line);
  call->children.push_back(std::move(expr));
  TANDEM_ASSIGN(call->arguments, parse_arguments());
  return finish(std::move(call));
}

// Called after the '|'.
Result<ExprPtr> Parser::parse_filter(ExprPtr expr) {
  ExprPtr filter = make(ExprKind::kFilter, current().line);
  TANDEM_ASSIGN(filter->name, dotted_name());
  filter->children.push_back(std::move(expr));
  if (current().is_operator("(")) {
    TANDEM_ASSIGN(filter->arguments, parse_arguments());
  }
  return finish(std::move(filter));
}

Result<ExprPtr> Parser::parse_test(ExprPtr expr) {
  const int line = current().line;
  next();
  const bool negated = skip_name("not");
  ExprPtr test = make(ExprKind::kTest, line);
  TANDEM_ASSIGN(test->name, dotted_name());
  test->children.push_back(std::move(expr));
  const Token& token = current();
  const bool value = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                     token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat || token.is_operator("[") ||
                     token.is_operator("{");
  if (token.is_operator("(")) {
    TANDEM_ASSIGN(test->arguments, parse_arguments());
  } else if (value && !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) return fail("tests cannot be chained with is");
    test->arguments = std::make_unique<Arguments>();
    TANDEM_ASSIGN(ExprPtr argument, parse_primary());
    TANDEM_ASSIGN(argument, parse_postfix(std::move(argument)));
    test->arguments->positional.push_back(std::move(argument));
  }
  TANDEM_ASSIGN(test, finish(std::move(test)));
  if (!negated) return test;
  ExprPtr inverse = make(ExprKind::kNot, line);
  inverse->children.push_back(std::move(test));
  return finish(std::move(inverse));
}

}  // namespace tandem::jinja
