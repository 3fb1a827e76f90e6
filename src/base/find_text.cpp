#include "base/find_text.h"

#include <vector>

namespace tandem {
namespace {

// Up to this length, comparing at each position is cheap.
constexpr size_t kShort = 32;

// Knuth, Morris and Pratt. Calls found(position) at each match until it returns false.
template <typename Found>
void for_each_match(std::string_view text, std::string_view wanted, size_t from, Found&& found) {
  std::vector<size_t> border(wanted.size(), 0);  // The longest border of each prefix.
  size_t matched = 0;
  for (size_t i = 1; i < wanted.size(); ++i) {
    while (matched > 0 && wanted[i] != wanted[matched]) matched = border[matched - 1];
    if (wanted[i] == wanted[matched]) ++matched;
    border[i] = matched;
  }
  matched = 0;
  for (size_t i = from; i < text.size(); ++i) {
    while (matched > 0 && text[i] != wanted[matched]) matched = border[matched - 1];
    if (text[i] == wanted[matched]) ++matched;
    if (matched < wanted.size()) continue;
    if (!found(i + 1 - matched)) return;
    matched = border[matched - 1];
  }
}

}  // namespace

size_t find_text(std::string_view text, std::string_view wanted, size_t from) {
  if (wanted.size() <= kShort) return text.find(wanted, from);
  if (from > text.size() || wanted.size() > text.size() - from) return std::string_view::npos;
  size_t at = std::string_view::npos;
  for_each_match(text, wanted, from, [&](size_t match) {
    at = match;
    return false;
  });
  return at;
}

size_t find_last_text(std::string_view text, std::string_view wanted) {
  if (wanted.size() <= kShort) return text.rfind(wanted);
  size_t at = std::string_view::npos;
  if (wanted.size() > text.size()) return at;
  for_each_match(text, wanted, 0, [&](size_t match) {
    at = match;
    return true;
  });
  return at;
}

}  // namespace tandem
