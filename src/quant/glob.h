// Patterns over weight names, as recipes use them: "layers.*.mlp.down", "layers.{0..3}.*".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

// *        any characters, including none and dots
// ?        one character
// [abc]    one of these characters; ranges as in [a-z], and [!...] for any other
// {3..12}  a whole number in this range, written without leading zeros: for runs of layers, which [..] cannot express
// All other characters stand for themselves. The whole name must match.
class Glob {
 public:
  // Refuses empty patterns, unclosed brackets and braces, empty ranges, and [10-15], which would not mean what it seems
  // to say.
  static Result<Glob> compile(std::string_view pattern);

  // In time proportional to the pattern's length times the text's.
  bool matches(std::string_view text) const;
  const std::string& pattern() const { return pattern_; }

  friend bool operator==(const Glob& a, const Glob& b) { return a.pattern_ == b.pattern_; }

 private:
  enum class Kind { kLiteral, kAny, kOne, kClass, kNumber };
  struct Token {
    Kind kind = Kind::kLiteral;
    char literal = 0;
    bool negated = false;                       // kClass
    std::vector<std::pair<char, char>> ranges;  // kClass
    int64_t first = 0;                          // kNumber
    int64_t last = 0;
  };

  static Result<Token> parse_class(std::string_view pattern, size_t& position);
  static Result<Token> parse_number(std::string_view pattern, size_t& position);
  static bool matches_one(const Token& token, char c);

  std::string pattern_;
  std::vector<Token> tokens_;
};

}  // namespace tandem
