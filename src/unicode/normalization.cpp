// Normal forms and lower case.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "unicode/code_point_ranges.h"
#include "unicode/properties.h"
#include "unicode/tables.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// Characters that NFC neither changes nor composes with what precedes them. Not all, but those of most texts. Sorted.
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

// Hangul syllables are numbered by their parts (chapter 3.12 of the Unicode Standard).
constexpr char32_t kSyllableBase = 0xac00, kLeadBase = 0x1100, kVowelBase = 0x1161, kTailBase = 0x11a7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28;

// Below 256: the combining class of a character without a decomposition; otherwise 256 plus its offset in the pool.
constexpr uint32_t kFirstPlace = 256;
constexpr uint32_t kIsCompatibility = 0x100;  // In the word before a decomposition, with its length.

uint32_t decomposition_of(char32_t c) {
  using namespace unicode_tables;
  const size_t block = c >> kDecompositionShift;
  if (block >= std::size(kDecompositionIndex)) return 0;
  const size_t first = size_t{kDecompositionIndex[block]} << kDecompositionShift;
  return kDecompositionBlocks[first | (c & ((1u << kDecompositionShift) - 1))];
}

// The combining class of a character that the form does not decompose further.
uint32_t combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const uint32_t value = decomposition_of(c);
  return value < kFirstPlace ? value : 0;
}

// The composition of two characters, or 0.
char32_t compose(char32_t first, char32_t second) {
  using namespace unicode_tables;
  if (second < 0x300) return 0;
  if (first >= kLeadBase && first < kLeadBase + kLeads && second >= kVowelBase && second < kVowelBase + kVowels) {
    return kSyllableBase + ((first - kLeadBase) * kVowels + (second - kVowelBase)) * kTails;
  }
  const char32_t syllable = first - kSyllableBase;
  if (syllable < kLeads * kVowels * kTails && syllable % kTails == 0 && second > kTailBase &&
      second < kTailBase + kTails) {
    return first + (second - kTailBase);
  }
  const auto* found =
      std::lower_bound(std::begin(kCompositions), std::end(kCompositions), CompositionPair{second, first, 0},
                       [](const CompositionPair& a, const CompositionPair& b) {
                         return a.second != b.second ? a.second < b.second : a.first < b.first;
                       });
  const bool matches = found != std::end(kCompositions) && found->second == second && found->first == first;
  return matches ? found->composite : 0;
}

class Normalization {
 public:
  explicit Normalization(NormalForm form)
      : composes_(form == NormalForm::kNfc || form == NormalForm::kNfkc),
        compatibility_(form == NormalForm::kNfkc || form == NormalForm::kNfkd) {}

  std::string run(std::string_view text) {
    points_.reserve(text.size() + 16);
    while (!text.empty()) {
      const Utf8Sequence sequence = next_valid_utf8(text);
      text.remove_prefix(sequence.length);
      decompose(sequence.code_point);
    }
    sort_marks();
    if (composes_) compose_all();
    std::string result;
    result.reserve(points_.size() + 16);
    for (const char32_t c : points_) append_utf8(result, c);
    return result;
  }

 private:
  void decompose(char32_t c) {
    using namespace unicode_tables;
    if (c < 0xa0) return add(c, 0);
    if (const char32_t syllable = c - kSyllableBase; syllable < kLeads * kVowels * kTails) {
      add(kLeadBase + syllable / (kVowels * kTails), 0);
      add(kVowelBase + syllable % (kVowels * kTails) / kTails, 0);
      if (syllable % kTails != 0) add(kTailBase + syllable % kTails, 0);
      return;
    }
    const uint32_t value = decomposition_of(c);
    if (value < kFirstPlace) return add(c, value);
    const uint16_t* place = kDecompositionPool + (value - kFirstPlace);
    if ((*place & kIsCompatibility) != 0 && !compatibility_) return add(c, 0);
    const uint16_t* const end = place + 1 + (*place & 0xff);
    for (++place; place < end; ++place) {
      char32_t part = *place;
      if (part >= 0xd800 && part < 0xdc00) part = 0x10000 + ((part - 0xd800) << 10) + (*++place - 0xdc00u);
      decompose(part);  // At most five deep in the tables.
    }
  }

  void add(char32_t c, uint32_t combining) {
    if (combining == 0) sort_marks();
    points_.push_back(c);
    if (combining == 0) marks_from_ = points_.size();
  }

  void sort_marks() {
    if (points_.size() - marks_from_ < 2) return;
    std::stable_sort(points_.begin() + static_cast<ptrdiff_t>(marks_from_), points_.end(),
                     [](char32_t a, char32_t b) { return combining_class(a) < combining_class(b); });
  }

  // A character composes with the last starter, unless one between them has the same class or a higher one.
  void compose_all() {
    size_t size = 0;
    size_t starter = SIZE_MAX;
    uint32_t last = 0;
    for (const char32_t c : points_) {
      const uint32_t combining = combining_class(c);
      if (starter != SIZE_MAX && (starter + 1 == size || last < combining)) {
        if (const char32_t composite = compose(points_[starter], c)) {
          points_[starter] = composite;
          continue;
        }
      }
      if (combining == 0) starter = size;
      last = combining;
      points_[size++] = c;
    }
    points_.resize(size);
  }

  bool composes_;
  bool compatibility_;
  std::vector<char32_t> points_;
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

std::string normal_form(std::string_view text, NormalForm form) { return Normalization(form).run(text); }

std::string lower_case(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = next_valid_utf8(text.substr(i));
    i += sequence.length;
    if (sequence.code_point == 0x130) {
      result.append("i\xCC\x87");  // The only one that becomes two characters: i with a dot above.
    } else {
      append_utf8(result, unicode_tables::map_case(unicode_tables::kLowerCase, sequence.code_point));
    }
  }
  return result;
}

}  // namespace tandem
