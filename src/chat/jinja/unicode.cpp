#include "chat/jinja/unicode.h"

#include <algorithm>

namespace tandem::jinja {
namespace {

constexpr char32_t kCapitalSigma = 0x3a3;
constexpr char32_t kCapitalDottedI = 0x130;

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xc0) == 0x80; }

// The character at the start of valid UTF-8, and how many bytes it takes.
struct Decoded {
  char32_t c;
  size_t size;
};
Decoded decode(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t first = at(0);
  if (first < 0x80 || text.size() < 2) return {first, 1};
  if (first < 0xe0) return {((first & 0x1f) << 6) | (at(1) & 0x3f), 2};
  if (text.size() < 3) return {0xfffd, text.size()};
  if (first < 0xf0) return {((first & 0x0f) << 12) | ((at(1) & 0x3f) << 6) | (at(2) & 0x3f), 3};
  if (text.size() < 4) return {0xfffd, text.size()};
  return {((first & 0x07) << 18) | ((at(1) & 0x3f) << 12) | ((at(2) & 0x3f) << 6) | (at(3) & 0x3f), 4};
}

bool in_ranges(const CodeRanges& ranges, char32_t c) {
  const CodeRange* end = ranges.data + ranges.count;
  const CodeRange* found =
      std::upper_bound(ranges.data, end, c, [](char32_t x, const CodeRange& r) { return x < r.first; });
  return found != ranges.data && c <= (found - 1)->last;
}

char32_t simple_case(const CaseRanges& ranges, char32_t c) {
  const CaseRange* end = ranges.data + ranges.count;
  const CaseRange* found =
      std::upper_bound(ranges.data, end, c, [](char32_t x, const CaseRange& r) { return x < r.first; });
  // Ranges of every second code point may be nested, so the range before may contain it too.
  for (int back = 1; back <= 2 && found - back >= ranges.data; ++back) {
    const CaseRange& range = *(found - back);
    if (c <= range.last && (c - range.first) % static_cast<char32_t>(range.step) == 0) {
      return static_cast<char32_t>(static_cast<int32_t>(c) + range.delta);
    }
  }
  return c;
}

const SpecialCase* special_upper(char32_t c) {
  const SpecialCases specials = upper_specials();
  const SpecialCase* end = specials.data + specials.count;
  const SpecialCase* found =
      std::lower_bound(specials.data, end, c, [](const SpecialCase& s, char32_t x) { return s.from < x; });
  return found != end && found->from == c ? found : nullptr;
}

void append_upper(std::u32string& out, char32_t c, bool title_case) {
  if (c < 0x80) {
    out.push_back(c >= 'a' && c <= 'z' ? c - 32 : c);
  } else if (const SpecialCase* special = special_upper(c)) {
    bool first = true;
    for (const char32_t to : special->to) {
      if (to != 0) out.push_back(title_case && !first ? simple_case(to_lower_ranges(), to) : to);
      first = false;
    }
  } else {
    out.push_back(simple_case(to_upper_ranges(), c));
  }
}

bool is_cased(char32_t c) { return is_upper(c) || is_lower(c); }

void append_lower(std::u32string& out, std::u32string_view text, size_t i) {
  const char32_t c = text[i];
  if (c < 0x80) {
    out.push_back(c >= 'A' && c <= 'Z' ? c + 32 : c);
  } else if (c == kCapitalDottedI) {
    out.append({U'i', 0x307});
  } else if (c == kCapitalSigma && i > 0 && is_cased(text[i - 1]) && (i + 1 == text.size() || !is_cased(text[i + 1]))) {
    out.push_back(0x3c2);  // At the end of a word.
  } else {
    out.push_back(simple_case(to_lower_ranges(), c));
  }
}

}  // namespace

size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<size_t>(std::ranges::count_if(text, is_continuation));
}

std::u32string to_code_points(std::string_view text) {
  std::u32string code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    const Decoded next = decode(text);
    code_points.push_back(next.c);
    text.remove_prefix(next.size);
  }
  return code_points;
}

void append_code_point(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(static_cast<uint8_t>(byte))); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | (c >> 6));
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3f));
    put(0x80 | ((c >> 6) & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::string to_utf8(std::u32string_view code_points) {
  std::string text;
  text.reserve(code_points.size());
  for (const char32_t c : code_points) append_code_point(text, c);
  return text;
}

size_t find_invalid_utf8(std::string_view bytes) {
  size_t i = 0;
  while (i < bytes.size()) {
    const auto first = static_cast<uint8_t>(bytes[i]);
    const size_t size = first < 0x80   ? 1
                        : first < 0xc2 ? 0
                        : first < 0xe0 ? 2
                        : first < 0xf0 ? 3
                        : first < 0xf5 ? 4
                                       : 0;
    if (size == 0 || size > bytes.size() - i) return i;
    for (size_t k = 1; k < size; ++k) {
      if (!is_continuation(bytes[i + k])) return i;
    }
    const char32_t c = decode(bytes.substr(i, size)).c;
    if ((size == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) || (size == 4 && (c < 0x10000 || c > 0x10ffff))) {
      return i;
    }
    i += size;
  }
  return std::string_view::npos;
}

size_t byte_offset(std::string_view text, size_t code_point) {
  size_t at = 0;
  while (code_point > 0 && at < text.size()) {
    ++at;
    while (at < text.size() && is_continuation(text[at])) ++at;
    --code_point;
  }
  return at;
}

bool is_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_digit(char32_t c) { return c < 0x80 ? c >= '0' && c <= '9' : in_ranges(digit_ranges(), c); }
bool is_alpha(char32_t c) { return in_ranges(alpha_ranges(), c); }
bool is_printable(char32_t c) {
  return c < 0x80 ? c >= 0x20 && c < 0x7f : !in_ranges(unprintable_ranges(), c) && !(c >= 0xd800 && c <= 0xdfff);
}
bool is_upper(char32_t c) {
  return c < 0x80 ? c >= 'A' && c <= 'Z' : c == kCapitalDottedI || simple_case(to_lower_ranges(), c) != c;
}
bool is_lower(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return special_upper(c) != nullptr || simple_case(to_upper_ranges(), c) != c;
}

std::u32string upper(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) append_upper(out, c, false);
  return out;
}

std::u32string lower(std::u32string_view text) {
  std::u32string out;
  for (size_t i = 0; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

std::u32string capitalize(std::u32string_view text) {
  std::u32string out;
  if (!text.empty()) append_upper(out, text[0], true);
  for (size_t i = 1; i < text.size(); ++i) append_lower(out, text, i);
  return out;
}

std::u32string title(std::u32string_view text) {
  std::u32string out;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (inside) {
      append_lower(out, text, i);
    } else {
      append_upper(out, text[i], true);
    }
    inside = is_cased(text[i]);
  }
  return out;
}

std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right) {
  std::u32string set = chars != nullptr ? to_code_points(*chars) : std::u32string();
  std::ranges::sort(set);
  const auto goes = [&](char32_t c) { return chars == nullptr ? is_space(c) : std::ranges::binary_search(set, c); };
  while (left && !text.empty()) {
    const Decoded first = decode(text);
    if (!goes(first.c)) break;
    text.remove_prefix(first.size);
  }
  while (right && !text.empty()) {
    size_t at = text.size() - 1;
    while (at > 0 && is_continuation(text[at])) --at;
    if (!goes(decode(text.substr(at)).c)) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

}  // namespace tandem::jinja
