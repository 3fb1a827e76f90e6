#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "text/unicode_additions.h"
#include "text/utf8.h"

namespace tandem {
namespace {

// The library's NFC has the tables of Unicode 9. Later characters that have a combining class, a decomposition or a
// composition are inert to it, and so they must be here. Sorted.
constexpr struct {
  char32_t first;
  char32_t last;
} kLaterThanNfcTables[] = {
    {0x07fd, 0x07fd},   {0x0897, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},   {0x0c3c, 0x0c3c},
    {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0xa82c, 0xa82c},   {0x105c9, 0x105c9}, {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4},
    {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efc, 0x10eff}, {0x10f46, 0x10f50},
    {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11383, 0x11383}, {0x11385, 0x11385},
    {0x1138e, 0x1138e}, {0x11391, 0x11391}, {0x113b8, 0x113bb}, {0x113c2, 0x113c2}, {0x113c5, 0x113c5},
    {0x113c7, 0x113c9}, {0x113ce, 0x113d0}, {0x113e1, 0x113e2}, {0x1145e, 0x1145e}, {0x11839, 0x1183a},
    {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943}, {0x119e0, 0x119e0},
    {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42}, {0x11d44, 0x11d45},
    {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1611e, 0x16129}, {0x1612f, 0x1612f}, {0x16d63, 0x16d63},
    {0x16d67, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae},
    {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef}, {0x1e5ee, 0x1e5ef},
};

bool is_inert_in_nfc(char32_t c) {
  if (c < kLaterThanNfcTables[0].first) return false;
  const auto* after = std::upper_bound(std::begin(kLaterThanNfcTables), std::end(kLaterThanNfcTables), c,
                                       [](char32_t value, const auto& range) { return value < range.first; });
  return after != std::begin(kLaterThanNfcTables) && c <= std::prev(after)->last;
}

}  // namespace

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return true;
    default: break;
  }
  // Rust's tables are newer than unicode_additions.h: two ranges of Unicode 17.
  if ((c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6)) return true;
  if (c < 0x10d40) return false;  // The first number in there.
  return std::any_of(unicode_additions().begin(), unicode_additions().end(), [&](const UnicodeAddition& addition) {
    return addition.category[0] == 'N' && c >= addition.first && c <= addition.last;
  });
}

bool is_word_character(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC: return true;
    default: break;
  }
  // Symbols that Unicode calls alphabetic (circled and squared letters), and the joiners.
  return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
         (c >= 0x1f170 && c <= 0x1f189) || c == 0x200c || c == 0x200d;
}

bool is_trivially_nfc(std::string_view text) {
  // Lead bytes from 0xCC on begin U+0300 and above; nothing below composes with anything below.
  return std::none_of(text.begin(), text.end(), [](char byte) { return static_cast<uint8_t>(byte) >= 0xcc; });
}

std::string nfc(std::string_view text) {
  constexpr auto kDecompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
  constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

  std::string result;
  result.reserve(text.size() + 16);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size() + 16);
  // utf8proc's own decomposition of a whole string sorts marks by exchanging neighbours, which is quadratic: a
  // megabyte of marks would hang it. So characters are decomposed one by one, and runs of marks sorted here.
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  size_t marks_from = 0;  // Everything in `points` from here on has a non-zero combining class.
  const auto sort_marks = [&] {
    if (points.size() - marks_from < 2) return;
    std::stable_sort(points.begin() + static_cast<ptrdiff_t>(marks_from), points.end(),
                     [&](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
  };
  const auto add = [&](utf8proc_int32_t c) {
    if (c < 0x300 || combining_class(c) == 0) {
      sort_marks();
      points.push_back(c);
      marks_from = points.size();
    } else {
      points.push_back(c);
    }
  };
  const auto finish = [&] {
    sort_marks();
    const utf8proc_ssize_t length =
        utf8proc_normalize_utf32(points.data(), static_cast<utf8proc_ssize_t>(points.size()), kCompose);
    for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(result, static_cast<char32_t>(points[i]));
    points.clear();
    marks_from = 0;
  };

  while (!text.empty()) {
    const Utf8Sequence sequence = next_valid_utf8(text);
    text.remove_prefix(sequence.length);
    const auto c = static_cast<utf8proc_int32_t>(sequence.code_point);
    if (c < 0xc0) {
      add(c);
      continue;
    }
    if (is_inert_in_nfc(sequence.code_point)) {
      finish();
      append_utf8(result, sequence.code_point);
      continue;
    }
    utf8proc_int32_t parts[16];  // The longest canonical decomposition has four code points.
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, 16, kDecompose, &boundary);
    if (count < 1 || count > 16) {
      add(c);
      continue;
    }
    for (utf8proc_ssize_t i = 0; i < count; ++i) add(parts[i]);
  }
  finish();
  return result;
}

}  // namespace tandem
