#include "tokenizer/char_classes.h"

#include <algorithm>

namespace tandem {

CharClasses::CharClasses(std::span<const ClassRange> ranges, uint32_t count) : count_(count), index_(kBlockCount) {
  constexpr uint16_t kNone = 0xffff;
  std::vector<uint16_t> uniform(count, kNone);  // The block whose characters all have this class.
  const auto add_block = [&] {
    blocks_.resize(blocks_.size() + kMask + 1);
    return static_cast<uint16_t>((blocks_.size() >> kShift) - 1);
  };
  size_t at = 0;  // The range of the next character.
  for (char32_t block = 0; block < kBlockCount; ++block) {
    const char32_t first = block << kShift;
    const char32_t end = first + kMask + 1;
    while (at + 1 < ranges.size() && ranges[at + 1].first <= first) ++at;
    const uint16_t char_class = ranges[at].char_class;
    if (at + 1 == ranges.size() || ranges[at + 1].first >= end) {
      if (uniform[char_class] == kNone) {
        uniform[char_class] = add_block();
        std::fill(blocks_.end() - (kMask + 1), blocks_.end(), char_class);
      }
      index_[block] = uniform[char_class];
      continue;
    }
    index_[block] = add_block();
    uint16_t* const cells = &blocks_[size_t{index_[block]} << kShift];
    for (char32_t c = first; c < end; ++c) {
      while (at + 1 < ranges.size() && ranges[at + 1].first <= c) ++at;
      cells[c & kMask] = ranges[at].char_class;
    }
  }
  for (size_t i = 0; i < ascii_.size(); ++i) ascii_[i] = static_cast<uint16_t>(of(static_cast<char32_t>(i)));
}

std::vector<std::bitset<256>> CharClasses::lead_bytes() const {
  std::vector<std::bitset<256>> leads(count_);
  for (char32_t c = 0; c < 0x800; ++c) leads[of(c)].set(c < 0x80 ? c : 0xc0 | (c >> 6));
  std::vector<std::bitset<256>> of_block(blocks_.size() >> kShift);  // The lead bytes of the characters that use it.
  for (char32_t block = 0x800 >> kShift; block < kBlockCount; ++block) {
    const char32_t c = block << kShift;
    of_block[index_[block]].set(c < 0x10000 ? 0xe0 | (c >> 12) : 0xf0 | (c >> 18));
  }
  for (size_t block = 0; block < of_block.size(); ++block) {
    if (of_block[block].none()) continue;
    const uint16_t* const cells = &blocks_[block << kShift];
    for (size_t i = 0; i <= kMask; ++i) {
      if (i == 0 || cells[i] != cells[i - 1]) leads[cells[i]] |= of_block[block];
    }
  }
  return leads;
}

}  // namespace tandem
