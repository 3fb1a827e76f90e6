// Normal forms and lower case.
#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "unicode/code_point_ranges.h"
#include "unicode/properties.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// The library's normal forms have the tables of Unicode 9. Later characters that have a combining class, a
// decomposition or a composition are inert to it, and so they must be here. Sorted.
constexpr CodePointRange kLaterThanTables[] = {
    {0x07fd, 0x07fd},   {0x0897, 0x089f},   {0x08ca, 0x08d3},   {0x09fe, 0x09fe},   {0x0c3c, 0x0c3c},
    {0x0d3b, 0x0d3c},   {0x0eba, 0x0eba},   {0x1715, 0x1715},   {0x1abf, 0x1ace},   {0x1df6, 0x1dfa},
    {0x32ff, 0x32ff},   {0xa7f1, 0xa7f4},   {0xa82c, 0xa82c},   {0xab69, 0xab69},   {0x105c9, 0x105c9},
    {0x105d2, 0x105d2}, {0x105da, 0x105da}, {0x105e4, 0x105e4}, {0x10781, 0x10785}, {0x10787, 0x107b0},
    {0x107b2, 0x107ba}, {0x10d24, 0x10d27}, {0x10d69, 0x10d6d}, {0x10eab, 0x10eac}, {0x10efc, 0x10eff},
    {0x10f46, 0x10f50}, {0x10f82, 0x10f85}, {0x11070, 0x11070}, {0x1133b, 0x1133b}, {0x11383, 0x11383},
    {0x11385, 0x11385}, {0x1138e, 0x1138e}, {0x11391, 0x11391}, {0x113b8, 0x113bb}, {0x113c2, 0x113c2},
    {0x113c5, 0x113c5}, {0x113c7, 0x113c9}, {0x113ce, 0x113d0}, {0x113e1, 0x113e2}, {0x1145e, 0x1145e},
    {0x11839, 0x1183a}, {0x11930, 0x11930}, {0x11938, 0x11938}, {0x1193d, 0x1193e}, {0x11943, 0x11943},
    {0x119e0, 0x119e0}, {0x11a34, 0x11a34}, {0x11a47, 0x11a47}, {0x11a99, 0x11a99}, {0x11d42, 0x11d42},
    {0x11d44, 0x11d45}, {0x11d97, 0x11d97}, {0x11f41, 0x11f42}, {0x1611e, 0x16129}, {0x1612f, 0x1612f},
    {0x16d63, 0x16d63}, {0x16d67, 0x16d6a}, {0x16ff0, 0x16ff1}, {0x1ccd6, 0x1ccf9}, {0x1e030, 0x1e06d},
    {0x1e08f, 0x1e08f}, {0x1e130, 0x1e136}, {0x1e2ae, 0x1e2ae}, {0x1e2ec, 0x1e2ef}, {0x1e4ec, 0x1e4ef},
    {0x1e5ee, 0x1e5ef}, {0x1f16c, 0x1f16c}, {0x1fbf0, 0x1fbf9},
};

// Characters that NFC neither changes nor joins with what is before them. Not all, but those of most texts. Sorted.
constexpr CodePointRange kInertInNfc[] = {
    {0x0, 0x2ff},        // Latin.
    {0x388, 0x482},      // Greek, Cyrillic.
    {0x48a, 0x52f},      // More Cyrillic.
    {0x2002, 0x20cf},    // Spaces, dashes, quotes, currencies.
    {0x2190, 0x2328},    // Arrows, mathematics.
    {0x232b, 0x2adb},    // Boxes, shapes, dingbats, braille.
    {0x3000, 0x3029},    // Chinese punctuation.
    {0x3030, 0x3098},    // Hiragana without its combining marks.
    {0x309b, 0x30ff},    // Katakana.
    {0x3105, 0x312f},    // Bopomofo.
    {0x3200, 0x32fe},    // Enclosed.
    {0x3400, 0x9fff},    // Chinese characters.
    {0xac00, 0xd7a3},    // Hangul syllables.
    {0xff01, 0xffee},    // Full width forms.
    {0x1f300, 0x1faff},  // Emoji.
    {0x20000, 0x2f7ff},  // More Chinese characters, but for the compatibility ideographs.
};

// Upper case letters that Unicode 15, 16 and 17 added, and the distance to their lower case.
constexpr struct {
  char32_t first;
  char32_t last;
  char32_t lower;
} kLaterLowerCase[] = {
    {0x1c89, 0x1c89, 0x1c8a},    {0xa7cb, 0xa7cb, 0x0264},    {0xa7cc, 0xa7cc, 0xa7cd}, {0xa7ce, 0xa7ce, 0xa7cf},
    {0xa7d2, 0xa7d2, 0xa7d3},    {0xa7d4, 0xa7d4, 0xa7d5},    {0xa7da, 0xa7da, 0xa7db}, {0xa7dc, 0xa7dc, 0x019b},
    {0x10d50, 0x10d65, 0x10d70}, {0x16ea0, 0x16eb8, 0x16ebb},
};

char32_t lower_case_of(char32_t c) {
  for (const auto& row : kLaterLowerCase) {
    if (c >= row.first && c <= row.last) return row.lower + (c - row.first);
  }
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

// Decomposes character by character, and sorts runs of marks. utf8proc's own decomposition of a whole string sorts by
// exchanging neighbours, which is quadratic: a megabyte of marks would hang it.
class Decomposition {
 public:
  explicit Decomposition(NormalForm form)
      : compose_(form == NormalForm::kNfc || form == NormalForm::kNfkc),
        options_(static_cast<utf8proc_option_t>(
            UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
            (form == NormalForm::kNfkc || form == NormalForm::kNfkd ? UTF8PROC_COMPAT : 0))) {}

  std::string run(std::string_view text) {
    result_.reserve(text.size() + 16);
    points_.reserve(text.size() + 16);
    while (!text.empty()) {
      const Utf8Sequence sequence = next_valid_utf8(text);
      text.remove_prefix(sequence.length);
      const auto c = static_cast<utf8proc_int32_t>(sequence.code_point);
      if (c < 0xa0) {
        add(c);
        continue;
      }
      if (is_in(kLaterThanTables, sequence.code_point)) {
        finish();
        append_utf8(result_, sequence.code_point);
        continue;
      }
      utf8proc_int32_t parts[32];  // The longest decomposition has 18 code points.
      int boundary = 0;
      const utf8proc_ssize_t count = utf8proc_decompose_char(c, parts, 32, options_, &boundary);
      if (count < 1 || count > 32) {
        add(c);
        continue;
      }
      for (utf8proc_ssize_t i = 0; i < count; ++i) add(parts[i]);
    }
    finish();
    return std::move(result_);
  }

 private:
  static int combining_class(utf8proc_int32_t c) { return c < 0x300 ? 0 : utf8proc_get_property(c)->combining_class; }

  void add(utf8proc_int32_t c) {
    if (combining_class(c) == 0) {
      sort_marks();
      points_.push_back(c);
      marks_from_ = points_.size();
    } else {
      points_.push_back(c);
    }
  }

  void sort_marks() {
    if (points_.size() - marks_from_ < 2) return;
    std::stable_sort(points_.begin() + static_cast<ptrdiff_t>(marks_from_), points_.end(),
                     [](utf8proc_int32_t a, utf8proc_int32_t b) { return combining_class(a) < combining_class(b); });
  }

  void finish() {
    sort_marks();
    auto length = static_cast<utf8proc_ssize_t>(points_.size());
    if (compose_) {
      constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
      length = utf8proc_normalize_utf32(points_.data(), length, kCompose);
    }
    for (utf8proc_ssize_t i = 0; i < length; ++i) append_utf8(result_, static_cast<char32_t>(points_[i]));
    points_.clear();
    marks_from_ = 0;
  }

  bool compose_;
  utf8proc_option_t options_;
  std::string result_;
  std::vector<utf8proc_int32_t> points_;
  size_t marks_from_ = 0;  // Everything in `points_` from here on has a non-zero combining class.
};

}  // namespace

bool is_quickly_nfc(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0xcc) {  // Up to U+02FF.
      ++i;
      continue;
    }
    if (lead >= 0xe4 && lead <= 0xe9) {  // From U+4000 to U+9FFF: Chinese characters.
      i += 3;
      continue;
    }
    const Utf8Sequence sequence = next_valid_utf8(text.substr(i));
    if (!is_in(kInertInNfc, sequence.code_point)) return false;
    i += sequence.length;
  }
  return true;
}

std::string normal_form(std::string_view text, NormalForm form) { return Decomposition(form).run(text); }

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = next_valid_utf8(text.substr(i));
    i += sequence.length;
    if (sequence.code_point == 0x130) {
      result.append("i\xCC\x87");  // The only one that becomes two: i with a dot above.
    } else {
      append_utf8(result, lower_case_of(sequence.code_point));
    }
  }
  return result;
}

}  // namespace tandem
