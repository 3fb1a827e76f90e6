#include "quant/glob.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/ascii.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr size_t kMaxPattern = 256;
// Layers number in the tens; nine digits cannot overflow.
constexpr size_t kMaxDigits = 9;

std::optional<int64_t> whole_number(std::string_view digits) {
  if (digits.empty() || digits.size() > kMaxDigits || !std::all_of(digits.begin(), digits.end(), is_ascii_digit))
    return {};
  if (digits.size() > 1 && digits[0] == '0') return {};
  int64_t number = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

}  // namespace

// `position` is at the opening bracket or brace, and after the closing one on return.
Result<Glob::Token> Glob::parse_class(std::string_view pattern, size_t& position) {
  const size_t begin = position + 1;
  // As in a shell, a closing bracket that comes first is an ordinary character.
  const size_t first = begin + (begin < pattern.size() && pattern[begin] == '!' ? 1 : 0);
  const size_t end = first < pattern.size() ? pattern.find(']', first + 1) : std::string_view::npos;
  if (end == std::string_view::npos) {
    return invalid_argument("pattern \"{}\": '[' without ']'", pattern);
  }
  Token token;
  token.kind = Kind::kClass;
  token.negated = first != begin;
  const std::string_view body = pattern.substr(first, end - first);
  if (const size_t dash = body.find('-'); dash != std::string_view::npos && body.size() > 3) {
    const auto low = whole_number(body.substr(0, dash)), high = whole_number(body.substr(dash + 1));
    if (low && high) {
      return invalid_argument("pattern \"{}\": [{}] is one character, not a number; write {{{}..{}}}", pattern, body,
                              *low, *high);
    }
  }
  for (size_t i = 0; i < body.size(); ++i) {
    if (i + 2 < body.size() && body[i + 1] == '-') {
      if (body[i] > body[i + 2]) return invalid_argument("pattern \"{}\": empty range in [{}]", pattern, body);
      token.ranges.emplace_back(body[i], body[i + 2]);
      i += 2;
    } else {
      token.ranges.emplace_back(body[i], body[i]);
    }
  }
  position = end + 1;
  return token;
}

Result<Glob::Token> Glob::parse_number(std::string_view pattern, size_t& position) {
  const size_t end = pattern.find('}', position);
  if (end == std::string_view::npos) return invalid_argument("pattern \"{}\": '{{' without '}}'", pattern);
  const std::string_view body = pattern.substr(position + 1, end - position - 1);
  const size_t dots = body.find("..");
  const auto first = whole_number(body.substr(0, dots));
  const auto last = dots == std::string_view::npos ? first : whole_number(body.substr(dots + 2));
  if (!first || !last) {
    return invalid_argument("pattern \"{}\": {{{}}} should be a range of numbers such as {{0..3}}", pattern, body);
  }
  if (*first > *last) return invalid_argument("pattern \"{}\": {{{}}} is empty", pattern, body);
  Token token;
  token.kind = Kind::kNumber;
  token.first = *first;
  token.last = *last;
  position = end + 1;
  return token;
}

Result<Glob> Glob::compile(std::string_view pattern) {
  if (pattern.empty()) return invalid_argument("an empty pattern matches nothing; \"*\" matches every weight");
  if (pattern.size() > kMaxPattern) return invalid_argument("a pattern of more than {} characters", kMaxPattern);
  Glob glob;
  glob.pattern_ = pattern;
  for (size_t i = 0; i < pattern.size();) {
    Token token;
    switch (pattern[i]) {
      case '*':
        token.kind = Kind::kAny;
        ++i;
        break;
      case '?':
        token.kind = Kind::kOne;
        ++i;
        break;
      case '[': {
        TANDEM_ASSIGN(token, parse_class(pattern, i));
        break;
      }
      case '{': {
        TANDEM_ASSIGN(token, parse_number(pattern, i));
        break;
      }
      default: token.literal = pattern[i++];
    }
    glob.tokens_.push_back(std::move(token));
  }
  return glob;
}

bool Glob::matches_one(const Token& token, char c) {
  switch (token.kind) {
    case Kind::kLiteral: return c == token.literal;
    case Kind::kOne: return true;
    case Kind::kClass: {
      const bool inside = std::any_of(token.ranges.begin(), token.ranges.end(),
                                      [c](const auto& range) { return range.first <= c && c <= range.second; });
      return inside != token.negated;
    }
    case Kind::kAny:
    case Kind::kNumber: break;
  }
  return false;
}

bool Glob::matches(std::string_view text) const {
  // reached[i]: the tokens so far can match exactly the first i characters. No backtracking, so no slow patterns.
  std::vector<bool> reached(text.size() + 1), next(text.size() + 1);
  reached[0] = true;
  for (const Token& token : tokens_) {
    std::fill(next.begin(), next.end(), false);
    bool any = false;
    for (size_t i = 0; i <= text.size(); ++i) {
      if (token.kind == Kind::kAny) {
        any = any || reached[i];
        next[i] = any;
        continue;
      }
      if (!reached[i] || i == text.size()) continue;
      if (token.kind != Kind::kNumber) {
        if (matches_one(token, text[i])) next[i + 1] = true;
        continue;
      }
      // A number ends where its digits end: {1..2} does not match the beginning of 25, nor the end of 12.
      if (i > 0 && is_ascii_digit(text[i - 1])) continue;
      size_t end = i;
      while (end < text.size() && is_ascii_digit(text[end])) ++end;
      const auto number = whole_number(text.substr(i, end - i));
      if (number && token.first <= *number && *number <= token.last) next[end] = true;
    }
    reached.swap(next);
  }
  return reached[text.size()];
}

}  // namespace tandem
