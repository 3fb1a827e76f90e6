// Regular expressions: what they match, what is refused, and that all matches of a text take linear work.
#include "tokenizer/regex.h"

#include <gtest/gtest.h>

#include <random>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tokenizer/regex/regex_compiler.h"
#include "unicode/utf8.h"

namespace tandem {
namespace regex_test {

using Matches = std::vector<std::pair<size_t, size_t>>;

// All matches, or nothing if that takes too long.
std::optional<Matches> find_all(const Regex& regex, std::string_view text, WorkBudget& budget, bool use_dfa = true) {
  RegexMatcher matcher(regex, use_dfa);
  matcher.start(text, budget);
  Matches matches;
  while (true) {
    const Result<std::optional<RegexMatch>> match = matcher.next();
    if (!match.ok()) return std::nullopt;
    if (!*match) return matches;
    matches.emplace_back((*match)->begin, (*match)->end);
  }
}

Matches find_all(std::string_view pattern, std::string_view text) {
  const Result<Regex> regex = make_regex(pattern);
  EXPECT_TRUE(regex.ok()) << regex.error().message;
  WorkBudget budget(text.size());
  return regex.ok() ? find_all(*regex, text, budget).value_or(Matches()) : Matches();
}

// The same with PCRE2's interpreter. (Its JIT is not an oracle: version 10.42 is wrong about some lazy repeats in
// atomic groups.)
class Oracle {
 public:
  explicit Oracle(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE where = 0;
    code_ = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &where, nullptr);
    data_ = pcre2_match_data_create(1, nullptr);
  }
  Oracle(const Oracle&) = delete;
  Oracle& operator=(const Oracle&) = delete;
  ~Oracle() {
    pcre2_match_data_free(data_);
    pcre2_code_free(code_);
  }

  bool ok() const { return code_ != nullptr; }

  std::optional<Matches> find_all(std::string_view text) const {
    Matches matches;
    std::optional<size_t> last_end;
    for (size_t from = 0; from <= text.size();) {
      const int status =
          pcre2_match(code_, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, 0, data_, nullptr);
      if (status == PCRE2_ERROR_NOMATCH) break;
      if (status < 0) return std::nullopt;
      const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(data_);
      if (offsets[0] == offsets[1] && last_end == offsets[1]) {
        if (from >= text.size()) break;
        from += next_valid_utf8(text.substr(from)).length;
        continue;
      }
      matches.emplace_back(offsets[0], offsets[1]);
      from = offsets[1];
      last_end = from;
    }
    return matches;
  }

 private:
  pcre2_code* code_ = nullptr;
  pcre2_match_data* data_ = nullptr;
};

class PatternMaker {
 public:
  explicit PatternMaker(unsigned seed) : random_(seed) {}

  // In the syntax that both engines read the same way.
  std::string pattern(int depth = 4) {
    const auto kind = random_() % 20;
    if (depth <= 0 || kind < 9) return atom() + quantifier();
    if (kind < 11) return pattern(depth - 1) + pattern(depth - 1);
    if (kind < 13) return pattern(depth - 1) + "|" + pattern(depth - 1);
    if (kind < 15) return "(?:" + pattern(depth - 1) + ")" + quantifier();
    if (kind == 15) return "(?=" + pattern(depth - 1) + ")";
    if (kind == 16) return "(?!" + pattern(depth - 1) + ")";
    if (kind == 17) return "(?>" + pattern(depth - 1) + ")" + quantifier();
    if (kind == 18) return pick({"(?<=", "(?<!"}) + atom() + pick({"", atom()}) + pick({"", "|" + atom()}) + ")";
    return pick({"^", "$", "\\A", "\\z"}) + pattern(depth - 1);
  }

  std::string text() {
    std::string text;
    for (size_t length = random_() % 30; length > 0; --length) {
      text += pick({"a", "a", "a", "b", "c", " ", "\n", "\r", "é", "K", "k", "\u212a", "1", "x", "中", "\u0301"});
    }
    return text;
  }

 private:
  std::string pick(const std::vector<std::string>& from) { return from[random_() % from.size()]; }
  std::string atom() {
    return pick({"a",      "b",         "c",          "[ab]",         "[^a]",
                 ".",      "[ \\n\\r]", "[^ \\n\\r]", "\\n",          "\\p{L}",
                 "\\P{L}", "\\p{Nd}",   "é",          "[a-cé]",       "(?i:a)",
                 "(?i:k)", "(?i:[^K])", "\\r",        "[ \\n\\p{N}]", "[^\\r\\n\\p{L}\\p{N}]"});
  }
  std::string quantifier() {
    return pick({"", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "{2}", "{1,3}", "{0,2}", "{2,}", "{1,2}?"});
  }

  std::mt19937 random_;
};

TEST(Regex, FindsWhatAnotherEngineFinds) {
  PatternMaker maker(1);
  size_t compared = 0;
  size_t with_dfa = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string pattern = maker.pattern();
    const Oracle oracle(pattern);
    const Result<Regex> regex = make_regex(pattern);
    ASSERT_TRUE(oracle.ok()) << pattern;
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    for (int k = 0; k < 8; ++k) {
      const std::string text = maker.text();
      WorkBudget budget(text.size());
      const std::optional<Matches> expected = oracle.find_all(text);
      const std::optional<Matches> found = find_all(*regex, text, budget);
      if (!expected || !found) continue;
      ++compared;
      ASSERT_EQ(*found, *expected) << pattern << " in " << text;
      if (!regex->has_dfa()) continue;
      ++with_dfa;
      WorkBudget again(text.size());
      const std::optional<Matches> by_machine = find_all(*regex, text, again, /*use_dfa=*/false);
      ASSERT_EQ(by_machine.value_or(*expected), *expected) << pattern << " in " << text;
    }
  }
  EXPECT_GT(compared, 75'000u);
  EXPECT_GT(with_dfa, 40'000u);
}

// A text that makes the matcher remember what failed gives the same matches as its parts do without.
TEST(Regex, RememberingChangesNothing) {
  PatternMaker maker(2);
  size_t compared = 0;
  for (int i = 0; i < 600; ++i) {
    const std::string pattern = maker.pattern();
    const Oracle oracle(pattern);
    const Result<Regex> regex = make_regex(pattern);
    ASSERT_TRUE(oracle.ok() && regex.ok()) << pattern;
    std::string text(1000, 'a');
    while (text.size() < 2000) text += maker.text();
    WorkBudget budget(text.size());
    const std::optional<Matches> expected = oracle.find_all(text);
    const std::optional<Matches> found = find_all(*regex, text, budget);
    if (!expected || !found) continue;
    ++compared;
    ASSERT_EQ(*found, *expected) << pattern << " in " << text;
  }
  EXPECT_GT(compared, 500u);
}

TEST(Regex, KnowsTheSyntaxOfTokenizers) {
  EXPECT_EQ(find_all(R"(\s)", "a \u3000\u180e\n"), (Matches{{1, 2}, {2, 5}, {8, 9}}));
  EXPECT_EQ(find_all(R"([\S]+)", "ab c"), (Matches{{0, 2}, {3, 4}}));
  EXPECT_EQ(find_all(R"(\w+)", "é1_ Ⓐ-"), (Matches{{0, 4}, {5, 8}}));
  EXPECT_EQ(find_all(R"(\w+)", "a½⅓"), (Matches{{0, 3}}));    // As in Oniguruma: only Latin-1's fractions.
  EXPECT_EQ(find_all(R"([\w]+)", "a½⅓"), (Matches{{0, 1}}));  // But not in classes.
  EXPECT_EQ(find_all("(?i:[a-z])+", "aKi\u0131\u017f\u212a"), (Matches{{0, 3}, {5, 10}}));
  EXPECT_EQ(find_all(R"(\h+)", "xfA9g"), (Matches{{1, 4}}));
  EXPECT_EQ(find_all(R"(\u00e9|\x{4e2d}|\x61)", "é中a"), (Matches{{0, 2}, {2, 5}, {5, 6}}));
  EXPECT_EQ(find_all(R"([]a-]+)", "]-ab"), (Matches{{0, 3}}));
  EXPECT_EQ(find_all(R"(\p{^L}+)", "a12b"), (Matches{{1, 3}}));
  EXPECT_EQ(find_all(R"((?i)'S|T)", "'st"), (Matches{{0, 2}, {2, 3}}));
  EXPECT_EQ(find_all("a{x", "a{x"), (Matches{{0, 3}}));
  EXPECT_EQ(find_all("", "aé"), (Matches{{0, 0}, {1, 1}, {3, 3}}));
  EXPECT_EQ(find_all(R"(\p{Nd})", "\U00010d40"), (Matches{{0, 4}}));  // New in Unicode 16.
  EXPECT_EQ(find_all("(?<=a|bc)x", "ax bcx x"), (Matches{{1, 2}, {5, 6}}));
  EXPECT_EQ(find_all("(?<!a|bc)x", "ax bcx x"), (Matches{{7, 8}}));
}

TEST(Regex, RefusesByName) {
  for (const char* pattern :
       {"[a[b]]",  "[a&&b]", R"([\W])",  R"(\b)",   R"(\p{Han})",  R"(\pL)", "(?m:a)",  "(?<name>a)", "a{,3}",
        "a{1,2}+", "[a",     "\\",       R"(\1)",   R"(\C)",       R"(\K)",  "(*ANY)a", R"(\u12)",    "(",
        ")",       "a**",    "*a",       "a{2}{3}", "a{3,2}",      "a{2}?",  "[b-a]",   R"([\s-x])",  "(?<=a+)b",
        "(?=a)*",  "a(?i)b", "a{70000}", "(?R)",    "(?<=a{300})", "(?1)",   "(?(1)a)", R"(\g<1>)",   "^*"}) {
    const Result<Regex> regex = make_regex(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported) << pattern;
    EXPECT_NE(regex.error().message.find("regular expression"), std::string::npos) << regex.error().message;
  }
}

TEST(Regex, RefusesProgramsThatGrowWithoutBound) {
  const std::string deep = std::string(100, '(') + "a" + std::string(100, ')');
  for (const std::string& pattern :
       {std::string("(?:(?:(?:ab){100}){100}){100}"), std::string("(?:(?:(?:){65535}){65535}){65535}"),
        std::string("(?:(?:(?:a?b?){0,65535}){0,65535}){0,65535}"), deep, std::string(70'000, 'a')}) {
    const Result<Regex> regex = make_regex(pattern);
    ASSERT_FALSE(regex.ok());
    EXPECT_EQ(regex.error().code, ErrorCode::kUnsupported);
    EXPECT_LT(regex.error().message.size(), 500u);
  }
}

// Units of work per byte, over all matches. Searching again from each byte to the end would take 20,000.
double work_per_byte(std::string_view pattern, const std::string& text) {
  const Result<Regex> regex = make_regex(pattern);
  EXPECT_TRUE(regex.ok()) << regex.error().message;
  WorkBudget budget(text.size());
  const uint64_t before = budget.left();
  EXPECT_TRUE(find_all(*regex, text, budget)) << pattern;
  return static_cast<double>(before - budget.left()) / static_cast<double>(text.size());
}

TEST(Regex, AllMatchesTakeLinearWork) {
  const std::string a(40'000, 'a');
  for (const char* pattern :
       {"a+b|a", "a*b|a", "a*?b|a", "a+[bc]", "a++b|a", "(?>a+)b|a", "(?=.*x)a|a", "(?=.*?x)a|a", "(?!.*x)b|a",
        "(?:a|aa|aaa)+(?=\\n)", "(?:a+)+b|a", "(?:a|a)*b|a", "(?=(?:a{3})*(?!a))a{3}|a", "(?=a*(?=a*(?=a*x)))a|a",
        "a+b|a+c|a+d|a", "(?:aa)*b|a", "(?<=a)a+b|a", ".*.*.*x|a", "(?:a?){20}b|a"}) {
    EXPECT_LT(work_per_byte(pattern, a), 200) << pattern;
    EXPECT_LT(work_per_byte(pattern, a + "x"), 200) << pattern;
  }
}

TEST(Regex, WhatIsNotLinearEndsWithASentence) {
  const std::string text(40'000, 'a');
  for (const char* pattern : {"(?:a*)*b|a", "(?>(?:aa)*)b|a", "a{1,60000}b|a"}) {
    const Result<Regex> regex = make_regex(pattern);
    ASSERT_TRUE(regex.ok()) << regex.error().message;
    RegexMatcher matcher(*regex);
    WorkBudget budget(text.size());
    matcher.start(text, budget);
    Result<std::optional<RegexMatch>> match = matcher.next();
    while (match.ok() && *match) match = matcher.next();
    ASSERT_FALSE(match.ok()) << pattern;
    EXPECT_EQ(match.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(match.error().message.find(pattern), std::string::npos) << match.error().message;
  }
}

// The compiled form comes from a file and may have any bytes.
TEST(Regex, DamagedProgramsAreReadSafely) {
  const std::string text = "It's 1234 naïve  日本\n\n x";
  for (const char* pattern :
       {R"(\p{N}{1,3}|(?i:'s)| ?\p{L}+|\s+(?!\S)|\s+)", R"((?>a+)b|(?=(?:a{3})*(?!a))a|(?:a*)*x|^$)"}) {
    const Result<std::string> compiled = compile_regex(pattern);
    ASSERT_TRUE(compiled.ok()) << compiled.error().message;
    for (size_t length = 0; length < compiled->size(); length += length < 100 ? 1 : 37) {
      EXPECT_FALSE(Regex::load(std::string_view(*compiled).substr(0, length)).ok()) << length;
    }
    EXPECT_FALSE(Regex::load(*compiled + "x").ok());
    std::mt19937 random(3);
    size_t loaded = 0;
    for (int i = 0; i < 3'000; ++i) {
      std::string damaged = *compiled;
      // At the beginning and in the program; most of what lies between is the ranges of characters.
      const size_t end = std::min<size_t>(damaged.size(), i % 3 == 0 ? 200 : 2'000);
      const size_t at = i % 3 == 0 ? random() % end : damaged.size() - 1 - random() % end;
      damaged[at] = static_cast<char>(random() % 2 == 0 ? random() % 8 : random());
      const Result<Regex> regex = Regex::load(damaged);
      if (!regex.ok()) continue;
      ++loaded;
      for (const bool use_dfa : {true, false}) {
        WorkBudget budget(text.size(), 1 << 12);
        const std::optional<Matches> matches = find_all(*regex, text, budget, use_dfa);
        for (const auto& [first, last] : matches.value_or(Matches())) ASSERT_TRUE(first <= last && last <= text.size());
      }
    }
    EXPECT_GT(loaded, 100u);
  }
}

TEST(Regex, RealPatternsTakeLittleWork) {
  std::string text;
  while (text.size() < 20'000) text += "It's 1234 o'clock, naïve \U0001f600 日本語の文。\n\n    return x+=1;  ";
  for (const char* pattern :
       {R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)",
        R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t)?|\p{N}{1,3}|\s+)",
        R"(\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N})))"}) {
    EXPECT_LT(work_per_byte(pattern, text), 16) << pattern;
  }
}

}  // namespace regex_test
}  // namespace tandem
