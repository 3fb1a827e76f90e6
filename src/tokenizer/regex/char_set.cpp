#include "tokenizer/regex/char_set.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "unicode/properties.h"
#include "unicode/tables.h"

namespace tandem {
namespace {

using unicode_tables::CaseRun;
#include "tokenizer/regex/case_folding.inc"

constexpr char32_t kLastCodePoint = 0x10ffff;
constexpr std::string_view kCategoryNames[] = {"Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd",
                                               "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm",
                                               "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
constexpr size_t kCategoryCount = std::size(kCategoryNames);

constexpr CodePointRange kWhiteSpace[] = {{0x9, 0xd},       {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},
                                          {0x1680, 0x1680}, {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                          {0x205f, 0x205f}, {0x3000, 0x3000}};
// Letters whose general category is not a letter.
constexpr CodePointRange kOtherAlphabetic[] = {
    {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};
// Also in Oniguruma's Latin-1 table: superscripts and fractions. It uses that table only outside classes.
constexpr CodePointRange kLatin1WordCharacters[] = {{0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}};
constexpr CodePointRange kHexDigits[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};

char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool begins_with(std::string_view category, std::string_view name) {
  return name.size() <= category.size() && std::equal(name.begin(), name.end(), category.begin(),
                                                      [](char a, char b) { return lower_ascii(a) == lower_ascii(b); });
}

using CategoryRanges = std::array<std::vector<CodePointRange>, kCategoryCount>;

const CategoryRanges& category_ranges() {
  static const CategoryRanges table = [] {
    CategoryRanges ranges;
    char32_t first = 0;
    GeneralCategory category = general_category(0);
    for (char32_t c = 1; c <= kLastCodePoint + 1; ++c) {
      const GeneralCategory next = c <= kLastCodePoint ? general_category(c) : category;
      if (next == category && c <= kLastCodePoint) continue;
      ranges[category].push_back({first, c - 1});
      first = c;
      category = next;
    }
    return ranges;
  }();
  return table;
}

// Characters that differ only in case: S, s and the long s.
struct CaseOrbits {
  std::vector<std::vector<char32_t>> groups;
  std::map<char32_t, size_t> group_of;
};

const CaseOrbits& case_orbits() {
  static const CaseOrbits table = [] {
    std::map<char32_t, std::vector<char32_t>> by_target;
    for (const CaseRun& run : kCaseFolding) {
      for (char32_t c = run.first; c <= run.last; c += run.stride) {
        std::vector<char32_t>& group = by_target[run.target + (c - run.first)];
        if (group.empty()) group.push_back(run.target + (c - run.first));
        group.push_back(c);
      }
    }
    CaseOrbits orbits;
    for (auto& [target, group] : by_target) {
      for (const char32_t c : group) orbits.group_of[c] = orbits.groups.size();
      orbits.groups.push_back(std::move(group));
    }
    return orbits;
  }();
  return table;
}

}  // namespace

bool CharSet::add_category(std::string_view name, bool negated) {
  if (name.empty()) return false;
  bool known = false;
  for (const std::string_view category : kCategoryNames) known = known || begins_with(category, name);
  if (!known) return false;
  for (size_t i = 0; i < kCategoryCount; ++i) {
    if (begins_with(kCategoryNames[i], name) == negated) continue;
    const std::vector<CodePointRange>& more = category_ranges()[i];
    ranges_.insert(ranges_.end(), more.begin(), more.end());
  }
  return true;
}

void CharSet::add_white_space() { ranges_.insert(ranges_.end(), std::begin(kWhiteSpace), std::end(kWhiteSpace)); }

void CharSet::add_others_than_white_space() {
  char32_t next = 0;
  for (const CodePointRange& range : kWhiteSpace) {
    add(next, range.first - 1);
    next = range.last + 1;
  }
  add(next, kLastCodePoint);
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

void CharSet::merge() {
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
}

bool CharSet::contains(char32_t c) const {
  const auto after = std::upper_bound(ranges_.begin(), ranges_.end(), c,
                                      [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != ranges_.begin() && c <= std::prev(after)->last;
}

void CharSet::add_other_cases() {
  const CaseOrbits& orbits = case_orbits();
  std::vector<char32_t> more;
  const bool is_single = ranges_.size() == 1 && ranges_[0].first == ranges_[0].last;
  if (is_single) {
    const auto found = orbits.group_of.find(ranges_[0].first);
    if (found != orbits.group_of.end()) more = orbits.groups[found->second];
  } else {
    for (const std::vector<char32_t>& group : orbits.groups) {
      if (std::any_of(group.begin(), group.end(), [&](char32_t c) { return contains(c); })) {
        more.insert(more.end(), group.begin(), group.end());
      }
    }
  }
  for (const char32_t c : more) add(c, c);
}

void CharSet::finish(bool any_case) {
  merge();
  if (any_case) {
    add_other_cases();
    merge();
  }
  if (!negated_) return;
  std::vector<CodePointRange> others;
  char32_t next = 0;
  for (const CodePointRange& range : ranges_) {
    if (next < range.first) others.push_back({next, range.first - 1});
    next = range.last + 1;
  }
  if (next <= kLastCodePoint) others.push_back({next, kLastCodePoint});
  ranges_ = std::move(others);
}

}  // namespace tandem
