// Sorted lists of code points as ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace tandem {

struct CodePointRange {
  char32_t first;
  char32_t last;
};

// Whether c is in one of the ranges, which are sorted and not empty.
template <size_t kCount>
bool is_in(const CodePointRange (&ranges)[kCount], char32_t c) {
  if (c < ranges[0].first) return false;
  const auto* after = std::upper_bound(std::begin(ranges), std::end(ranges), c,
                                       [](char32_t value, const CodePointRange& range) { return value < range.first; });
  return after != std::begin(ranges) && c <= std::prev(after)->last;
}

}  // namespace tandem
