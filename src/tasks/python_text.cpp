#include "tasks/python_text.h"

#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// The beginning of the last character.
size_t last_character(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80) --at;
  return at;
}

// The letter whose lower case is `c`. There is no table of upper case, and no task needs it more than once for an item.
std::string upper_case(std::string_view c) {
  if (c.size() == 1) return std::string(1, c[0] >= 'a' && c[0] <= 'z' ? static_cast<char>(c[0] - 'a' + 'A') : c[0]);
  constexpr char32_t kFirst = 0xc0, kLast = 0x52f;  // Latin-1, Latin Extended, Greek, Cyrillic.
  for (char32_t candidate = kFirst; candidate <= kLast; ++candidate) {
    std::string upper;
    append_utf8(upper, candidate);
    if (upper != c && lower_case(upper) == c) return upper;
  }
  return std::string(c);
}

}  // namespace

bool is_python_space(char32_t code_point) {
  // Python counts the separators of files, groups, records and units too.
  return is_white_space(code_point) || (code_point >= 0x1c && code_point <= 0x1f);
}

std::string_view python_rstrip(std::string_view text) {
  while (!text.empty()) {
    const size_t at = last_character(text);
    if (!is_python_space(next_utf8(text.substr(at)).code_point)) break;
    text = text.substr(0, at);
  }
  return text;
}

std::string_view python_strip(std::string_view text) {
  text = python_rstrip(text);
  while (!text.empty()) {
    const Utf8Sequence first = next_utf8(text);
    if (!is_python_space(first.code_point)) break;
    text.remove_prefix(first.length);
  }
  return text;
}

std::string python_capitalize(std::string_view text) {
  if (text.empty()) return {};
  const size_t first = next_utf8(text).length;
  return upper_case(text.substr(0, first)) + lower_case(text.substr(first));
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); text.remove_prefix(next_utf8(text).length)) ++count;
  return count;
}

int64_t count_words(std::string_view text) {
  int64_t words = 1;
  bool in_space = false;
  while (!text.empty()) {
    const Utf8Sequence next = next_utf8(text);
    const bool is_space = is_python_space(next.code_point);
    if (is_space && !in_space) ++words;
    in_space = is_space;
    text.remove_prefix(next.length);
  }
  return words;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  out.reserve(text.size());
  for (size_t found = text.find(from); found != std::string_view::npos; found = text.find(from)) {
    out += text.substr(0, found);
    out += to;
    text.remove_prefix(found + from.size());
  }
  return out += text;
}

}  // namespace tandem
