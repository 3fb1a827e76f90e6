#include "unicode/char_set.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "unicode/properties.h"

namespace tandem {
namespace {

constexpr std::string_view kCategoryNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                               "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                               "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
constexpr uint32_t kAllCategories = (1u << std::size(kCategoryNames)) - 1;

constexpr CodePointRange kWhiteSpace[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                          {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                          {0x205f, 0x205f}, {0x3000, 0x3000}};
// Letters that are no letters by their category.
constexpr CodePointRange kOtherAlphabetic[] = {
    {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
// What Oniguruma's table of Latin-1 has besides: superscripts and fractions. It looks there outside of classes only.
constexpr CodePointRange kLatin1WordCharacters[] = {{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}};
constexpr CodePointRange kHexDigits[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

uint32_t categories_of(std::string_view name) {
  uint32_t mask = 0;
  for (size_t i = 0; i < std::size(kCategoryNames); ++i) {
    const std::string_view known = kCategoryNames[i].substr(0, name.size());
    if (std::equal(known.begin(), known.end(), name.begin(), name.end(),
                   [](char a, char b) { return lower_ascii(a) == lower_ascii(b); })) {
      mask |= 1u << i;
    }
  }
  return mask;
}

char32_t fold(char32_t c) {
  if (c == 0x130 || c == 0x131) return c;  // The Turkish letters i differ from i in more than case.
  return static_cast<char32_t>(utf8proc_tolower(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

// All characters that differ from c in case only, c among them: S, s and the long s.
const std::vector<char32_t>* case_variants(char32_t c) {
  static const auto table = [] {
    constexpr char32_t kLastCased = 0x1e943;
    std::map<char32_t, std::vector<char32_t>> by_fold;
    for (char32_t i = 0; i <= kLastCased; ++i) {
      const char32_t folded = fold(i);
      if (folded == i && utf8proc_toupper(static_cast<utf8proc_int32_t>(i)) == static_cast<utf8proc_int32_t>(i)) {
        continue;
      }
      by_fold[folded].push_back(i);
    }
    return by_fold;
  }();
  const auto found = table.find(fold(c));
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace

void CharSet::add(char32_t first, char32_t last) { ranges_.push_back({first, last}); }

void CharSet::add_white_space() {
  for (const CodePointRange& range : kWhiteSpace) add(range.first, range.last);
}

void CharSet::add_others_than_white_space() {
  char32_t next = 0;
  for (const CodePointRange& range : kWhiteSpace) {
    add(next, range.first - 1);
    next = range.last + 1;
  }
  add(next, 0x10ffff);
}

void CharSet::add_word_characters(bool in_class) {
  for (const char* category : {"L", "M", "Nd", "Nl", "Pc"}) add_category(category, false);
  for (const CodePointRange& range : kOtherAlphabetic) add(range.first, range.last);
  if (in_class) return;
  for (const CodePointRange& range : kLatin1WordCharacters) add(range.first, range.last);
}

void CharSet::add_hex_digits() {
  for (const CodePointRange& range : kHexDigits) add(range.first, range.last);
}

bool CharSet::add_category(std::string_view name, bool negated) {
  const uint32_t mask = categories_of(name);
  if (mask == 0 || name.empty()) return false;
  categories_ |= negated ? kAllCategories & ~mask : mask;
  return true;
}

void CharSet::finish(bool any_case) {
  any_case_ = any_case;
  std::sort(ranges_.begin(), ranges_.end(),
            [](const CodePointRange& a, const CodePointRange& b) { return a.first < b.first; });
  std::vector<CodePointRange> merged;
  for (const CodePointRange& range : ranges_) {
    if (!merged.empty() && range.first <= merged.back().last + 1) {
      merged.back().last = std::max(merged.back().last, range.last);
    } else {
      merged.push_back(range);
    }
  }
  ranges_ = std::move(merged);
  for (char32_t c = 0; c < 0x80; ++c) {
    if (contains_int16(c)) ascii_[c >> 6] |= uint64_t{1} << (c & 63);
  }
}

bool CharSet::has_member(char32_t c) const {
  if (categories_ != 0 && (categories_ >> general_category(c) & 1) != 0) return true;
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

bool CharSet::contains_int16(char32_t c) const {
  bool member = has_member(c);
  if (!member && any_case_) {
    const std::vector<char32_t>* variants = case_variants(c);
    member = variants != nullptr &&
             std::any_of(variants->begin(), variants->end(), [&](char32_t variant) { return has_member(variant); });
  }
  return member != negated_;
}

bool CharSet::may_begin_with(uint8_t byte) const {
  if (byte < 0x80) return contains(byte);
  if (byte < 0xc0) return false;  // Inside of a character.
  if (negated_ || any_case_ || categories_ != 0) return true;
  // The range of characters that begin with this byte.
  const auto lead = static_cast<char32_t>(byte);
  const char32_t first = byte < 0xe0 ? (lead & 0x1f) << 6 : byte < 0xf0 ? (lead & 0x0f) << 12 : (lead & 0x07) << 18;
  const char32_t last = first + (byte < 0xe0 ? 0x3f : byte < 0xf0 ? 0xfff : 0x3ffff);
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const CodePointRange& range) { return range.first <= last && range.last >= first; });
}

}  // namespace tandem
