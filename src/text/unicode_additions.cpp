#include "text/unicode_additions.h"

#include <algorithm>
#include <iterator>

#include "text/utf8.h"

namespace tandem {
namespace {

// DerivedGeneralCategory of Unicode 16.0 without what 14.0 has; sorted.
constexpr UnicodeAddition kAdditions[] = {
    {0x0897, 0x0897, "Mn"},   {0x0cf3, 0x0cf3, "Mc"},   {0x0ece, 0x0ece, "Mn"},   {0x1c89, 0x1c89, "Lu"},
    {0x1c8a, 0x1c8a, "Ll"},   {0xa7cb, 0xa7cc, "Lu"},   {0xa7cd, 0xa7cd, "Ll"},   {0xa7da, 0xa7da, "Lu"},
    {0xa7db, 0xa7db, "Ll"},   {0xa7dc, 0xa7dc, "Lu"},   {0x105c0, 0x105f3, "Lo"}, {0x10d40, 0x10d49, "Nd"},
    {0x10d4a, 0x10d4d, "Lo"}, {0x10d4e, 0x10d4e, "Lm"}, {0x10d4f, 0x10d4f, "Lo"}, {0x10d50, 0x10d65, "Lu"},
    {0x10d69, 0x10d6d, "Mn"}, {0x10d6f, 0x10d6f, "Lm"}, {0x10d70, 0x10d85, "Ll"}, {0x10ec2, 0x10ec4, "Lo"},
    {0x10efc, 0x10eff, "Mn"}, {0x1123f, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138b, 0x1138b, "Lo"}, {0x1138e, 0x1138e, "Lo"}, {0x11390, 0x113b5, "Lo"}, {0x113b7, 0x113b7, "Lo"},
    {0x113b8, 0x113ba, "Mc"}, {0x113bb, 0x113c0, "Mn"}, {0x113c2, 0x113c2, "Mc"}, {0x113c5, 0x113c5, "Mc"},
    {0x113c7, 0x113ca, "Mc"}, {0x113cc, 0x113cd, "Mc"}, {0x113ce, 0x113ce, "Mn"}, {0x113cf, 0x113cf, "Mc"},
    {0x113d0, 0x113d0, "Mn"}, {0x113d1, 0x113d1, "Lo"}, {0x113d2, 0x113d2, "Mn"}, {0x113d3, 0x113d3, "Lo"},
    {0x113e1, 0x113e2, "Mn"}, {0x116d0, 0x116e3, "Nd"}, {0x11bc0, 0x11be0, "Lo"}, {0x11bf0, 0x11bf9, "Nd"},
    {0x11f00, 0x11f01, "Mn"}, {0x11f02, 0x11f02, "Lo"}, {0x11f03, 0x11f03, "Mc"}, {0x11f04, 0x11f10, "Lo"},
    {0x11f12, 0x11f33, "Lo"}, {0x11f34, 0x11f35, "Mc"}, {0x11f36, 0x11f3a, "Mn"}, {0x11f3e, 0x11f3f, "Mc"},
    {0x11f40, 0x11f40, "Mn"}, {0x11f41, 0x11f41, "Mc"}, {0x11f42, 0x11f42, "Mn"}, {0x11f50, 0x11f59, "Nd"},
    {0x11f5a, 0x11f5a, "Mn"}, {0x1342f, 0x1342f, "Lo"}, {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"},
    {0x13447, 0x13455, "Mn"}, {0x13460, 0x143fa, "Lo"}, {0x16100, 0x1611d, "Lo"}, {0x1611e, 0x16129, "Mn"},
    {0x1612a, 0x1612c, "Mc"}, {0x1612d, 0x1612f, "Mn"}, {0x16130, 0x16139, "Nd"}, {0x16d40, 0x16d42, "Lm"},
    {0x16d43, 0x16d6a, "Lo"}, {0x16d6b, 0x16d6c, "Lm"}, {0x16d70, 0x16d79, "Nd"}, {0x18cff, 0x18cff, "Lo"},
    {0x1b132, 0x1b132, "Lo"}, {0x1b155, 0x1b155, "Lo"}, {0x1ccf0, 0x1ccf9, "Nd"}, {0x1d2c0, 0x1d2d3, "No"},
    {0x1df25, 0x1df2a, "Ll"}, {0x1e030, 0x1e06d, "Lm"}, {0x1e08f, 0x1e08f, "Mn"}, {0x1e4d0, 0x1e4ea, "Lo"},
    {0x1e4eb, 0x1e4eb, "Lm"}, {0x1e4ec, 0x1e4ef, "Mn"}, {0x1e4f0, 0x1e4f9, "Nd"}, {0x1e5d0, 0x1e5ed, "Lo"},
    {0x1e5ee, 0x1e5ef, "Mn"}, {0x1e5f0, 0x1e5f0, "Lo"}, {0x1e5f1, 0x1e5fa, "Nd"}, {0x2b739, 0x2b739, "Lo"},
    {0x2ebf0, 0x2ee5d, "Lo"}, {0x31350, 0x323af, "Lo"},
};

}  // namespace

std::span<const UnicodeAddition> unicode_additions() { return kAdditions; }

const UnicodeAddition* find_unicode_addition(char32_t c) {
  if (c < kAdditions[0].first) return nullptr;
  const auto* after = std::upper_bound(std::begin(kAdditions), std::end(kAdditions), c,
                                       [](char32_t value, const UnicodeAddition& row) { return value < row.first; });
  return after != std::begin(kAdditions) && c <= std::prev(after)->last ? std::prev(after) : nullptr;
}

bool has_unicode_additions(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    // By their first byte, most characters are known to be older: ASCII, Latin to Hebrew, Chinese, kana, Hangul.
    const auto lead = static_cast<uint8_t>(text[i]);
    if (lead < 0xf0 && lead != 0xe0 && lead != 0xe1 && lead != 0xea) continue;
    if (find_unicode_addition(next_valid_utf8(text.substr(i)).code_point) != nullptr) return true;
  }
  return false;
}

}  // namespace tandem
