#include "chat/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/error.h"
#include "base/format.h"
#include "chat/jinja/literals.h"
#include "chat/jinja/unicode.h"

namespace tandem::jinja {
namespace {

// Longer ones first.
constexpr std::array<std::string_view, 28> kOperators = {"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*",
                                                         "%",  "~",  "[",  "]",  "(",  ")",  "{", "}", ">", "<",
                                                         "=",  ".",  ":",  "|",  ",",  ";",  "",  ""};

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size()) TANDEM_TRY(read_text());
    add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view rest() const { return std::string_view(source_).substr(at_); }
  bool starts_with(std::string_view text) const { return rest().starts_with(text); }
  void add(TokenKind kind, std::string text) { tokens_.push_back({kind, line_, std::move(text), {}}); }
  void advance(size_t bytes) {
    line_ += static_cast<int>(std::ranges::count(rest().substr(0, bytes), '\n'));
    at_ += bytes;
  }
  void skip_spaces() { advance(rest().size() - strip(rest(), nullptr, true, false).size()); }

  // Text up to the next tag, and the tag.
  Status read_text() {
    size_t open = at_;
    for (;; ++open) {
      open = source_.find('{', open);
      if (open == std::string::npos || open + 1 >= source_.size()) open = source_.size();
      if (open == source_.size()) break;
      const char next = source_[open + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    std::string_view text = rest().substr(0, open - at_);
    const bool at_tag = open < source_.size();
    const char sign = at_tag && open + 2 < source_.size() ? source_[open + 2] : ' ';
    if (at_tag) text = trimmed(text, sign, source_[open + 1] == '{');
    if (!text.empty()) add(TokenKind::kData, std::string(text));
    line_starting_ = false;
    advance(open - at_);
    if (!at_tag) return ok_status();
    const char kind = source_[at_ + 1];
    const int line = line_;
    advance(sign == '-' || sign == '+' ? 3 : 2);
    if (kind == '#') return read_comment(line);
    if (kind == '%' && begins_raw()) return read_raw(line);
    add(kind == '{' ? TokenKind::kVariableBegin : TokenKind::kBlockBegin, "");
    return read_code(kind == '{');
  }

  // A text without what the tag after it trims.
  std::string_view trimmed(std::string_view text, char sign, bool variable) const {
    if (sign == '-') return strip(text, nullptr, false, true);
    if (sign == '+' || variable) return text;
    const size_t newline = text.rfind('\n');
    const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
    if (start == 0 && !line_starting_) return text;
    return strip(text.substr(start), nullptr, true, false).empty() ? text.substr(0, start) : text;
  }

  // The end of a tag: -%} trims all white space after it, %} one newline unless it is +%}.
  bool read_end(std::string_view close, bool trims_newline) {
    if (starts_with("-") && rest().substr(1).starts_with(close)) {
      advance(1 + close.size());
      const size_t before = at_;
      skip_spaces();
      line_starting_ = at_ > before && source_[at_ - 1] == '\n';
      return true;
    }
    if (trims_newline && starts_with("+") && rest().substr(1).starts_with(close)) {
      advance(1 + close.size());
      return true;
    }
    if (!starts_with(close)) return false;
    advance(close.size());
    if (trims_newline && starts_with("\n")) {
      advance(1);
      line_starting_ = true;
    }
    return true;
  }

  Status read_comment(int line) {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return error_at(line, "the comment is not closed with #}", ErrorCode::kCorrupt);
    size_t stop = end;
    if (stop > at_ && (source_[stop - 1] == '-' || source_[stop - 1] == '+')) --stop;
    advance(stop - at_);
    read_end("#}", true);
    return ok_status();
  }

  // After {%, with or without a sign: raw %}
  bool begins_raw() {
    std::string_view text = strip(rest(), nullptr, true, false);
    if (!text.starts_with("raw")) return false;
    text = strip(text.substr(3), nullptr, true, false);
    const bool strips = text.starts_with("-%}");
    if (!strips && !text.starts_with("%}")) return false;
    advance(rest().size() - text.size() + (strips ? 3 : 2));
    if (strips) skip_spaces();
    return true;
  }

  Status read_raw(int line) {
    for (size_t open = source_.find("{%", at_); open != std::string::npos; open = source_.find("{%", open + 1)) {
      const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
      const size_t inside = open + (sign == '-' || sign == '+' ? 3 : 2);
      std::string_view tail = strip(std::string_view(source_).substr(inside), nullptr, true, false);
      if (!tail.starts_with("endraw")) continue;
      tail = strip(tail.substr(6), nullptr, true, false);
      if (!tail.starts_with("%}") && !tail.starts_with("-%}") && !tail.starts_with("+%}")) continue;
      const std::string_view text = trimmed(rest().substr(0, open - at_), sign, false);
      if (!text.empty()) add(TokenKind::kData, std::string(text));
      line_starting_ = false;
      advance(source_.size() - tail.size() - at_);
      read_end("%}", true);
      return ok_status();
    }
    return error_at(line, "{% raw %} has no {% endraw %}", ErrorCode::kCorrupt);
  }

  // The code between {{ and }}, or {% and %}.
  Status read_code(bool variable) {
    const std::string_view close = variable ? "}}" : "%}";
    std::string open_brackets;
    for (;;) {
      if (open_brackets.empty() && read_end(close, !variable)) {
        add(variable ? TokenKind::kVariableEnd : TokenKind::kBlockEnd, "");
        return ok_status();
      }
      skip_spaces();
      if (at_ >= source_.size()) {
        return error_at(line_, str_format("the template ends inside of a tag; {} is missing", close),
                        ErrorCode::kCorrupt);
      }
      if (open_brackets.empty() && (starts_with(close) || (starts_with("-") && rest().substr(1).starts_with(close))))
        continue;
      if (open_brackets.empty() && !variable && starts_with("+%}")) continue;
      TANDEM_TRY(read_token(open_brackets));
    }
  }

  Status read_token(std::string& open_brackets) {
    const char c = source_[at_];
    if (c == '\'' || c == '"') return read_string(c);
    if (const NumberLiteral number = scan_number(rest(), at_ > 0 && source_[at_ - 1] == '.'); number.size > 0) {
      if (!number.value.is_number()) return error_at(line_, "a number is too large", ErrorCode::kUnsupported);
      add(number.value.is(Kind::kInt) ? TokenKind::kInteger : TokenKind::kFloat,
          std::string(rest().substr(0, number.size)));
      tokens_.back().value = number.value;
      at_ += number.size;
      return ok_status();
    }
    if (const size_t size = scan_name(rest()); size > 0) {
      add(TokenKind::kName, std::string(rest().substr(0, size)));
      at_ += size;
      return ok_status();
    }
    for (const std::string_view op : kOperators) {
      if (op.empty() || !starts_with(op)) continue;
      TANDEM_TRY(balance(op[0], open_brackets));
      add(TokenKind::kOperator, std::string(op));
      at_ += op.size();
      return ok_status();
    }
    return error_at(line_, str_format("the character {} makes no sense here", printable_start(rest())),
                    ErrorCode::kCorrupt);
  }

  Status balance(char c, std::string& open_brackets) const {
    if (c == '(') open_brackets.push_back(')');
    if (c == '[') open_brackets.push_back(']');
    if (c == '{') open_brackets.push_back('}');
    if (c != ')' && c != ']' && c != '}') return ok_status();
    if (open_brackets.empty() || open_brackets.back() != c) {
      return error_at(line_, str_format("unexpected '{}'", c), ErrorCode::kCorrupt);
    }
    open_brackets.pop_back();
    return ok_status();
  }

  Status read_string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return error_at(line_, "a string has no end", ErrorCode::kCorrupt);
    auto text = unescape(rest().substr(1, end - at_ - 1));
    if (!text.ok()) return error_at(line_, std::move(text).error().message, ErrorCode::kCorrupt);
    add(TokenKind::kString, std::move(text).value());
    advance(end + 1 - at_);
    return ok_status();
  }

  std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // Whether the text read last ended with a newline.
  std::vector<Token> tokens_;
};

// Turns \r\n and \r into \n, and removes the last newline.
std::string normalized(std::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text.push_back('\n');
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text.push_back(source[i]);
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

std::string Token::describe() const {
  switch (kind) {
    case TokenKind::kData: return "text";
    case TokenKind::kVariableBegin: return "'{{'";
    case TokenKind::kVariableEnd: return "'}}'";
    case TokenKind::kBlockBegin: return "'{%'";
    case TokenKind::kBlockEnd: return "'%}'";
    case TokenKind::kString: return "a string";
    case TokenKind::kEnd: return "the end of the template";
    default: return str_format("'{}'", text.size() > 40 ? std::string_view("…") : std::string_view(text));
  }
}

Error error_at(int line, std::string message, ErrorCode code) {
  return Error{code, str_format("line {} of the template: {}", line, message)};
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  if (const size_t bad = find_invalid_utf8(source); bad != std::string_view::npos) {
    return corrupt("the template is not valid UTF-8 (byte {})", bad);
  }
  return Lexer(normalized(source)).run();
}

}  // namespace tandem::jinja
