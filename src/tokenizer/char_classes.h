// Maps characters to the classes that a pattern distinguishes: a two-level table.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem {

// All characters from `first` up to the next range are of one class.
struct ClassRange {
  char32_t first;
  uint16_t char_class;
};

class CharClasses {
 public:
  CharClasses() = default;
  // The ranges are sorted, the first begins at 0, and their classes are below `count`.
  CharClasses(std::span<const ClassRange> ranges, uint32_t count);

  uint32_t count() const { return count_; }
  uint32_t of_ascii(uint8_t byte) const { return ascii_[byte]; }
  uint32_t of(char32_t c) const { return blocks_[(size_t{index_[c >> kShift]} << kShift) | (c & kMask)]; }
  // By class: the bytes that the UTF-8 of its characters begins with.
  std::vector<std::bitset<256>> lead_bytes() const;

 private:
  static constexpr unsigned kShift = 7;
  static constexpr char32_t kMask = (1u << kShift) - 1;
  static constexpr char32_t kBlockCount = 0x110000 >> kShift;

  uint32_t count_ = 0;
  std::array<uint16_t, 128> ascii_{};
  std::vector<uint16_t> index_;
  std::vector<uint16_t> blocks_;
};

}  // namespace tandem
