// Parses tokens into a tree. Nesting is bounded, so that code that walks the tree may recurse.
#pragma once

#include <initializer_list>
#include <string_view>
#include <vector>

#include "chat/jinja/ast.h"
#include "chat/jinja/lexer.h"

namespace tandem::jinja {

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}
  Result<Body> parse();

 private:
  static constexpr int kMaxDepth = 200;  // Of blocks in blocks, of brackets in brackets, and of the tree.

  struct Names {
    bool varargs = false;
    bool kwargs = false;
    bool caller = false;
  };

  // Tokens.
  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  void next() {
    if (at_ + 1 < tokens_.size()) ++at_;
  }
  bool skip_name(std::string_view name);
  bool skip_operator(std::string_view op);
  Status expect_operator(std::string_view op);
  Status expect_name(std::string_view name);
  Status expect_kind(TokenKind kind, std::string_view what);
  Result<std::string> any_name();
  Error fail(std::string message, ErrorCode code = ErrorCode::kCorrupt) const;

  // Statements (parser_statements.cpp).
  Result<Body> parse_body(std::initializer_list<std::string_view> ends);
  Result<Body> parse_block(std::initializer_list<std::string_view> ends);
  Result<std::unique_ptr<Stmt>> parse_statement();
  Status parse_set(Stmt& stmt);
  Status parse_for(Stmt& stmt);
  Status parse_if(Stmt& stmt);
  Status parse_with(Stmt& stmt);
  Status parse_macro(Stmt& stmt);
  Status parse_call_block(Stmt& stmt);
  Status parse_signature(Stmt& stmt);
  Status parse_macro_body(Stmt& stmt, std::string_view end);
  Result<ExprPtr> parse_target(bool with_namespace, std::string_view end);
  Status check_target(const Expr& target) const;

  // Expressions (parser.cpp).
  Result<ExprPtr> parse_tuple(bool simplified, bool with_conditional, std::string_view end, bool parentheses,
                              bool with_namespace = false);
  Result<ExprPtr> parse_expression();
  Result<ExprPtr> parse_or();
  Result<ExprPtr> parse_and();
  Result<ExprPtr> parse_not();
  Result<ExprPtr> parse_compare();
  Result<ExprPtr> parse_sum();
  Result<ExprPtr> parse_concat();
  Result<ExprPtr> parse_product();
  Result<ExprPtr> parse_power();
  Result<ExprPtr> parse_unary(bool with_filter);
  Result<ExprPtr> parse_primary(bool with_namespace = false);
  Result<ExprPtr> parse_list();
  Result<ExprPtr> parse_dict();
  Result<ExprPtr> parse_postfix(ExprPtr expr);
  Result<ExprPtr> parse_filters(ExprPtr expr);
  Result<ExprPtr> parse_subscript(ExprPtr expr);
  Result<ExprPtr> parse_call(ExprPtr expr);
  Result<ExprPtr> parse_filter(ExprPtr expr);
  Result<ExprPtr> parse_test(ExprPtr expr);
  Result<std::unique_ptr<Arguments>> parse_arguments();
  Result<std::string> dotted_name();
  Result<ExprPtr> finish(ExprPtr expr) const;  // Sets its depth and checks it.
  ExprPtr make(ExprKind kind, int line) const;
  template <typename Next>
  Result<ExprPtr> parse_chain(Next next, std::initializer_list<std::pair<std::string_view, Op>> operators);

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  int loops_ = 0;  // Around the current statement, inside the same macro.
  std::vector<Names> macros_;
};

}  // namespace tandem::jinja
