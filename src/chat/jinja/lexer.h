// Splits a template into tokens, trimming white space with transformers' Jinja2 settings: trim_blocks, lstrip_blocks,
// and without the last newline.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

namespace tandem::jinja {

enum class TokenKind : uint8_t {
  kData,           // Text between tags.
  kVariableBegin,  // {{
  kVariableEnd,
  kBlockBegin,  // {%
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // Data, names, operators, and unescaped strings.
  Value value;       // Of numbers.

  bool is_name(std::string_view name) const { return kind == TokenKind::kName && text == name; }
  bool is_operator(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  std::string describe() const;  // For messages.
};

// The last token is kEnd.
Result<std::vector<Token>> tokenize(std::string_view source);

// "line 7 of the template: …": all messages about a template begin like this.
Error error_at(int line, std::string message, ErrorCode code = ErrorCode::kInvalidArgument);

}  // namespace tandem::jinja
