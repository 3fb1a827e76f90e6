// Oniguruma's syntax to PCRE2's. What is known to mean the same in both passes; what is known to differ is rewritten;
// everything else is refused by name.
#include <string>

#include "base/error.h"
#include "text/regex.h"
#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace tandem {
namespace {

// PCRE2's \s has U+180E in it and depends on its tables; Oniguruma's is White_Space.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
constexpr std::string_view kNotSpace =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";
// Alphabetic, marks, decimal digits, connector punctuation.
constexpr std::string_view kWord =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}"
    "\\x{1f170}-\\x{1f189}";
constexpr std::string_view kHexDigit = "0-9A-Fa-f";

bool is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_ascii_alphanumeric(char c) { return is_letter(c) || (c >= '0' && c <= '9'); }

class Translator {
 public:
  Translator(std::string_view pattern, bool with_additions) : pattern_(pattern), with_additions_(with_additions) {}

  Result<std::string> run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        TANDEM_TRY(escape());
      } else if (in_class_) {
        TANDEM_TRY(class_character(c));
      } else {
        TANDEM_TRY(plain_character(c));
      }
    }
    if (in_class_) return refuse("a character class without its end");
    return std::move(out_);
  }

 private:
  Error refuse(std::string_view what) const {
    return unsupported("the tokenizer's regular expression \"{}\" has {} (at byte {}), which is not supported",
                       pattern_, what, at_);
  }

  bool follows(std::string_view text) const { return pattern_.substr(at_).substr(0, text.size()) == text; }

  void take(size_t count) {
    out_.append(pattern_.substr(at_, count));
    at_ += count;
  }

  void put_class(std::string_view members, bool negated) {
    if (in_class_) {
      out_.append(members);
    } else {
      out_.append(negated ? "[^" : "[").append(members).append("]");
    }
    at_ += 2;
  }

  Status class_character(char c) {
    if (c == ']' && at_ != class_first_) {
      in_class_ = false;
    } else if (c == '[') {
      return refuse("a class inside of a class");
    } else if (follows("&&")) {
      return refuse("an intersection of classes");
    }
    take(1);
    return ok_status();
  }

  Status plain_character(char c) {
    if (c == '[') {
      in_class_ = true;
      take(1);
      if (follows("^")) take(1);
      class_first_ = at_;
      return ok_status();
    }
    if (c == '(' && follows("(?")) return group();
    if (follows("(*")) return refuse("a \"(*\" construct");
    if (follows("{,")) return refuse("a repetition without its least number");
    if (follows("}+")) return refuse("a \"}+\"");  // Possessive in PCRE2, a repeated repetition in Oniguruma.
    take(1);
    return ok_status();
  }

  Status group() {
    for (const std::string_view known : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?-i:", "(?i)"}) {
      if (follows(known)) {
        take(known.size());
        return ok_status();
      }
    }
    return refuse(fmt::format("a group that begins \"{}\"", pattern_.substr(at_, 4)));
  }

  Status escape() {
    if (at_ + 1 >= pattern_.size()) return refuse("a lone backslash at its end");
    const char c = pattern_[at_ + 1];
    switch (c) {
      case 's': put_class(kSpace, false); return ok_status();
      case 'S': put_class(in_class_ ? kNotSpace : kSpace, true); return ok_status();
      case 'w': put_class(kWord, false); return ok_status();
      case 'h': put_class(kHexDigit, false); return ok_status();
      case 'W':
      case 'H':
        if (in_class_) break;
        put_class(c == 'W' ? kWord : kHexDigit, true);
        return ok_status();
      case 'd': put_class("\\p{Nd}", false); return ok_status();
      case 'D':
        if (in_class_) break;
        put_class("\\p{Nd}", true);
        return ok_status();
      case 'v':
        out_.append("\\x{0b}");
        at_ += 2;
        return ok_status();
      case 'r':
      case 'n':
      case 't':
      case 'f':
      case 'e':
      case 'a': take(2); return ok_status();
      case 'A':
      case 'z':
        if (in_class_) break;
        take(2);
        return ok_status();
      case 'p':
      case 'P': return property();
      case 'u':
      case 'x': return code_point();
      default:
        if (is_ascii_alphanumeric(c)) break;
        // An escaped sign, or the first byte of an escaped character, stands for itself in both.
        take(2);
        return ok_status();
    }
    return refuse(fmt::format("\\{}{}", c, in_class_ ? " in a class" : ""));
  }

  // General categories only: script names mean extensions too in newer versions of PCRE2.
  Status property() {
    const size_t end = pattern_.find('}', at_);
    if (!follows("\\p{") && !follows("\\P{")) return refuse("a property without braces");
    if (end == std::string_view::npos) return refuse("a property without its end");
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    if (name.substr(0, 1) == "^") name.remove_prefix(1);
    const bool category =
        (name.size() == 1 && is_letter(name[0])) || (name.size() == 2 && is_letter(name[0]) && is_letter(name[1]));
    if (!category) return refuse(fmt::format("the property \\p{{{}}}", name));
    // In a class, what a negated property leaves out cannot be said; it stays as the system's tables have it.
    const bool negated = follows("\\P") != follows("\\p{^");
    if (!with_additions_ || (in_class_ && negated)) {
      take(end + 1 - at_);
      return ok_status();
    }
    if (!in_class_) out_.append(negated ? "[^" : "[");
    out_.append("\\p{").append(name).append("}");
    for (const UnicodeAddition& addition : unicode_additions()) {
      if (std::string_view(addition.category).substr(0, name.size()) != name) continue;
      out_.append(fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<uint32_t>(addition.first),
                              static_cast<uint32_t>(addition.last)));
    }
    if (!in_class_) out_.append("]");
    at_ = end + 1;
    return ok_status();
  }

  Status code_point() {
    const bool braces = follows("\\x{");
    const size_t first = at_ + (braces ? 3 : 2);
    const size_t most = braces ? 6 : follows("\\u") ? 4 : 2;
    size_t end = first;
    while (end < pattern_.size() && end < first + most && is_hex(pattern_[end])) ++end;
    if (end == first || (follows("\\u") && end != first + 4)) return refuse("a code point without digits");
    if (braces && (end >= pattern_.size() || pattern_[end] != '}')) return refuse("a code point without its end");
    out_.append("\\x{").append(pattern_.substr(first, end - first)).append("}");
    at_ = end + (braces ? 1 : 0);
    return ok_status();
  }

  std::string_view pattern_;
  bool with_additions_;
  size_t at_ = 0;
  bool in_class_ = false;
  size_t class_first_ = 0;  // Where a ']' is still a member.
  std::string out_;
};

}  // namespace

Result<std::string> translate_oniguruma(std::string_view pattern, bool with_additions) {
  if (!is_valid_utf8(pattern)) return corrupt("a regular expression of the tokenizer is not valid UTF-8");
  return Translator(pattern, with_additions).run();
}

std::string escape_regex(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = is_ascii_alphanumeric(c) || static_cast<unsigned char>(c) >= 0x80 || c == '_';
    if (!plain && c != '\0') escaped.push_back('\\');
    if (c == '\0') {
      escaped.append("\\x{0}");
    } else {
      escaped.push_back(c);
    }
  }
  return escaped;
}

}  // namespace tandem
