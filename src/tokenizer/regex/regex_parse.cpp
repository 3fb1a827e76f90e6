// Reads Oniguruma's syntax. Constructs of known meaning are accepted; everything else is refused by name, never
// guessed.
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "tokenizer/regex/regex_tree.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

using Kind = RegexNode::Kind;

// Patterns of real tokenizers have about a hundred bytes.
constexpr size_t kMaxPatternBytes = 64 * 1024;
constexpr int kMaxDepth = 64;
constexpr uint32_t kMaxCount = 65535;

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// "X*" and nothing else, where X is one character.
bool is_repeated_set(const RegexNode& node) {
  return node.kind == Kind::kConcat && node.children.size() == 1 && node.children[0].kind == Kind::kRepeat &&
         node.children[0].mode == RepeatMode::kGreedy && node.children[0].children[0].kind == Kind::kSet;
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : pattern_(pattern) {}

  Result<RegexTree> run() {
    TANDEM_ASSIGN(tree_.root, alternatives());
    if (at_ < pattern_.size()) return refuse("a \")\" without its beginning");
    return std::move(tree_);
  }

 private:
  Error refuse(std::string_view what) const {
    return unsupported("the tokenizer's regular expression \"{}\" has {} (at byte {}), which is not supported",
                       shown_pattern(pattern_), what, at_);
  }

  bool done() const { return at_ >= pattern_.size(); }
  bool follows(std::string_view text) const { return pattern_.substr(at_).substr(0, text.size()) == text; }
  bool take(std::string_view text) {
    if (!follows(text)) return false;
    at_ += text.size();
    return true;
  }
  char32_t take_character() {
    const Utf8Sequence sequence = next_valid_utf8(pattern_.substr(at_));
    at_ += sequence.length;
    return sequence.code_point;
  }

  RegexNode set_node(CharSet set) {
    set.finish(any_case_);
    tree_.sets.push_back(std::move(set));
    RegexNode node{.kind = Kind::kSet};
    node.set = static_cast<uint32_t>(tree_.sets.size() - 1);
    return node;
  }

  Result<RegexNode> alternatives() {
    if (++depth_ > kMaxDepth) return refuse("groups inside of each other, too many");
    const bool outer_case = any_case_;
    // Anywhere else, the two engines that support it disagree on its scope.
    if (take("(?i)")) any_case_ = true;
    RegexNode node{.kind = Kind::kAlternate};
    do {
      TANDEM_ASSIGN(RegexNode branch, sequence());
      node.children.push_back(std::move(branch));
    } while (take("|"));
    any_case_ = outer_case;
    --depth_;
    if (node.children.size() > 1) return node;
    RegexNode only = std::move(node.children[0]);
    return only;
  }

  Result<RegexNode> sequence() {
    RegexNode node{.kind = Kind::kConcat};
    while (!done() && !follows("|") && !follows(")")) {
      TANDEM_ASSIGN(RegexNode item, atom());
      TANDEM_ASSIGN(item, repeated(std::move(item)));
      node.children.push_back(std::move(item));
    }
    return node;
  }

  // The quantifier after an item, if there is one.
  Result<RegexNode> repeated(RegexNode item) {
    RegexNode repeat{.kind = Kind::kRepeat};
    const bool counted = follows("{");
    if (take("*")) {
      repeat.max = kUnbounded;
    } else if (take("+")) {
      repeat.min = 1;
      repeat.max = kUnbounded;
    } else if (take("?")) {
      repeat.max = 1;
    } else {
      TANDEM_ASSIGN(const bool is_count, count(repeat));
      if (!is_count) return item;
    }
    switch (item.kind) {
      case Kind::kLookahead:
      case Kind::kLookbehind:
      case Kind::kAssert: return refuse("a repeated condition");
      default: break;
    }
    if (counted && follows("+")) return refuse("a \"}+\"");  // A repeated repetition here, possessive elsewhere.
    if (counted && follows("?") && repeat.min == repeat.max) return refuse("a \"?\" behind a fixed number");
    if (take("?")) {
      repeat.mode = RepeatMode::kLazy;
    } else if (take("+")) {
      repeat.mode = RepeatMode::kPossessive;
    }
    RegexNode next{.kind = Kind::kRepeat};
    const size_t before = at_;
    TANDEM_ASSIGN(const bool again, count(next));
    at_ = before;
    if (again || follows("*") || follows("+") || follows("?")) return refuse("a repeated repetition");
    repeat.children.push_back(std::move(item));
    return repeat;
  }

  // {3}, {3,} or {3,5}; any other brace stands for itself.
  Result<bool> count(RegexNode& repeat) {
    if (!follows("{")) return false;
    if (follows("{,")) return refuse("a repetition without its least number");
    size_t at = at_ + 1;
    const auto number = [&]() -> std::optional<uint32_t> {
      const size_t begin = at;
      uint32_t value = 0;
      for (; at < pattern_.size() && is_digit(pattern_[at]) && at < begin + 6; ++at) {
        value = value * 10 + static_cast<uint32_t>(pattern_[at] - '0');
      }
      return at == begin ? std::nullopt : std::optional(value);
    };
    const std::optional<uint32_t> least = number();
    if (!least || at >= pattern_.size()) return false;
    std::optional<uint32_t> most = least;
    if (pattern_[at] == ',') {
      ++at;
      most = number();
      if (!most) most = kUnbounded;
    }
    if (at >= pattern_.size() || pattern_[at] != '}') return false;
    if (*least > kMaxCount || (*most > kMaxCount && *most != kUnbounded)) {
      return refuse("a repetition of too many times");
    }
    if (*least > *most) return refuse("a repetition whose numbers are the wrong way round");
    repeat.min = *least;
    repeat.max = *most;
    at_ = at + 1;
    return true;
  }

  Result<RegexNode> atom() {
    if (follows("(")) return group();
    if (follows("[")) return character_class();
    if (follows("\\")) return escape();
    if (follows("*") || follows("+") || follows("?")) return refuse("a repetition of nothing");
    RegexNode counted;
    TANDEM_ASSIGN(const bool is_count, count(counted));
    if (is_count) return refuse("a repetition of nothing");
    if (take("^")) return assertion(RegexAssertion::kLineBegin);
    if (take("$")) return assertion(RegexAssertion::kLineEnd);
    CharSet set;
    if (take(".")) {
      set.add('\n', '\n');
      set.negate();
    } else {
      const char32_t c = take_character();
      set.add(c, c);
    }
    return set_node(std::move(set));
  }

  static RegexNode assertion(RegexAssertion which) {
    RegexNode node{.kind = Kind::kAssert};
    node.assertion = which;
    return node;
  }

  Result<RegexNode> group() {
    struct Form {
      std::string_view begin;
      Kind kind;
      bool negated;
    };
    static constexpr Form kForms[] = {
        {"(?:", Kind::kConcat, false},     {"(?i:", Kind::kConcat, false},  {"(?-i:", Kind::kConcat, false},
        {"(?=", Kind::kLookahead, false},  {"(?!", Kind::kLookahead, true}, {"(?<=", Kind::kLookbehind, false},
        {"(?<!", Kind::kLookbehind, true}, {"(?>", Kind::kAtomic, false},   {"(", Kind::kConcat, false}};
    if (follows("(*")) return refuse("a \"(*\" construct");
    for (const Form& form : kForms) {
      if (form.begin == "(" && follows("(?")) break;
      if (!take(form.begin)) continue;
      const bool outer_case = any_case_;
      if (form.begin == "(?i:") any_case_ = true;
      if (form.begin == "(?-i:") any_case_ = false;
      RegexNode node{.kind = form.kind};
      node.negated = form.negated;
      TANDEM_ASSIGN(RegexNode body, alternatives());
      any_case_ = outer_case;
      if (!take(")")) return refuse("a group without its end");
      if (form.kind == Kind::kLookbehind) return lookbehind(std::move(node), std::move(body));
      if (form.kind == Kind::kAtomic && is_repeated_set(body)) {  // A possessive repeat, which is faster.
        body.children[0].mode = RepeatMode::kPossessive;
        return body;
      }
      node.children.push_back(std::move(body));
      return node;
    }
    return refuse(str_format("a group that begins \"{}\"", pattern_.substr(at_, 4)));
  }

  // A condition for each alternative, since their lengths may differ.
  Result<RegexNode> lookbehind(RegexNode look, RegexNode body) {
    std::vector<RegexNode> branches;
    if (body.kind == Kind::kAlternate) {
      branches = std::move(body.children);
    } else {
      branches.push_back(std::move(body));
    }
    RegexNode all{.kind = look.negated ? Kind::kConcat : Kind::kAlternate};
    for (RegexNode& branch : branches) {
      const std::optional<uint32_t> length = fixed_length(branch);
      if (!length) return refuse("a look-behind whose length is not fixed, or too long");
      RegexNode one = look;
      one.length = *length;
      one.children.push_back(std::move(branch));
      all.children.push_back(std::move(one));
    }
    // In a group: like other conditions, it cannot be repeated.
    RegexNode group{.kind = Kind::kLookahead};
    group.children.push_back(std::move(all));
    return group;
  }

  Result<RegexNode> escape() {
    if (take("\\A")) return assertion(RegexAssertion::kTextBegin);
    if (take("\\z")) return assertion(RegexAssertion::kTextEnd);
    CharSet set;
    for (const char* negated : {"\\S", "\\W", "\\H", "\\D"}) {
      if (!follows(negated)) continue;
      at_ += 2;
      const char c = negated[1];
      if (c == 'S') set.add_white_space();
      if (c == 'W') set.add_word_characters(false);
      if (c == 'H') set.add_hex_digits();
      if (c == 'D') set.add_category("Nd", false);
      set.negate();
      return set_node(std::move(set));
    }
    TANDEM_ASSIGN(const std::optional<char32_t> c, escaped(set, ""));
    if (c) set.add(*c, *c);
    return set_node(std::move(set));
  }

  // An escape that means the same inside and outside a class: one for many characters is added, one for a single
  // character is returned.
  Result<std::optional<char32_t>> escaped(CharSet& set, std::string_view where) {
    if (at_ + 1 >= pattern_.size()) return refuse("a lone backslash at its end");
    const char c = pattern_[at_ + 1];
    constexpr std::string_view kControls = "rntfeav";
    constexpr char kControlCodes[] = {'\r', '\n', '\t', '\f', 27, 7, 11};
    if (const size_t control = kControls.find(c); control != std::string_view::npos) {
      at_ += 2;
      return std::optional<char32_t>(static_cast<char32_t>(kControlCodes[control]));
    }
    if (c == 'p' || c == 'P') {
      TANDEM_TRY(property(set));
      return std::optional<char32_t>();
    }
    if (c == 'u' || c == 'x') return code_point();
    if (c == 's' || c == 'w' || c == 'h' || c == 'd') {
      at_ += 2;
      if (c == 's') set.add_white_space();
      if (c == 'w') set.add_word_characters(!where.empty());
      if (c == 'h') set.add_hex_digits();
      if (c == 'd') set.add_category("Nd", false);
      return std::optional<char32_t>();
    }
    if (is_letter(c) || is_digit(c)) return refuse(str_format("\\{}{}", c, where));
    at_ += 1;
    return std::optional<char32_t>(take_character());  // A sign stands for itself.
  }

  Status property(CharSet& set) {
    if (!follows("\\p{") && !follows("\\P{")) return refuse("a property without braces");
    const size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) return refuse("a property without its end");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    bool negated = follows("\\P");
    if (name.substr(0, 1) == "^") {
      name.remove_prefix(1);
      negated = !negated;
    }
    // Scripts and the like are not in the tables.
    if (!set.add_category(name, negated)) return refuse(str_format("the property \\p{{{}}}", name));
    at_ = end + 1;
    return ok_status();
  }

  Result<std::optional<char32_t>> code_point() {
    const bool braces = follows("\\x{");
    const size_t first = at_ + (braces ? 3 : 2);
    const size_t most = braces ? 6 : follows("\\u") ? 4 : 2;
    size_t end = first;
    char32_t value = 0;
    for (; end < pattern_.size() && end < first + most && is_hex(pattern_[end]); ++end) {
      const char c = pattern_[end];
      value = value * 16 + static_cast<char32_t>(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
    }
    if (end == first || (follows("\\u") && end != first + 4)) return refuse("a code point without digits");
    if (braces && (end >= pattern_.size() || pattern_[end] != '}')) return refuse("a code point without its end");
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return refuse("a code point that there is not");
    at_ = end + (braces ? 1 : 0);
    return std::optional<char32_t>(value);
  }

  Result<RegexNode> character_class() {
    CharSet set;
    at_ += 1;
    const bool negated = take("^");
    for (bool is_first = true; is_first || !follows("]"); is_first = false) {
      if (done()) return refuse("a character class without its end");
      if (follows("[")) return refuse("a class inside of a class");
      if (follows("&&")) return refuse("an intersection of classes");
      TANDEM_ASSIGN(const std::optional<char32_t> first, class_member(set));
      const bool range = follows("-") && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!range) {
        if (first) set.add(*first, *first);
        continue;
      }
      if (!first) return refuse("a range that begins with a class");
      at_ += 1;
      if (follows("[")) return refuse("a class inside of a class");
      TANDEM_ASSIGN(const std::optional<char32_t> last, class_member(set));
      if (!last) return refuse("a range that ends with a class");
      if (*last < *first) return refuse("a range that runs backwards");
      set.add(*first, *last);
    }
    at_ += 1;
    if (negated) set.negate();
    return set_node(std::move(set));
  }

  // One character, or nothing if the item stands for many, which are added.
  Result<std::optional<char32_t>> class_member(CharSet& set) {
    if (!follows("\\")) return std::optional<char32_t>(take_character());
    if (take("\\S")) {
      set.add_others_than_white_space();
      return std::optional<char32_t>();
    }
    return escaped(set, " in a class");
  }

  std::string_view pattern_;
  size_t at_ = 0;
  int depth_ = 0;
  bool any_case_ = false;
  RegexTree tree_;
};

}  // namespace

Result<RegexTree> parse_regex(std::string_view pattern) {
  if (!is_valid_utf8(pattern)) return corrupt("a regular expression of the tokenizer is not valid UTF-8");
  if (pattern.size() > kMaxPatternBytes) {
    return unsupported("a regular expression of {} bytes is longer than supported ({} at most)", pattern.size(),
                       kMaxPatternBytes);
  }
  return RegexParser(pattern).run();
}

}  // namespace tandem
