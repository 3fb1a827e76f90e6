// The tables of Unicode, made by tools/unicode/make_unicode_tables.py. Only the files of this folder use them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace tandem::unicode_tables {

// {first, last} of the characters above a two-level table that have a value other than zero.
struct UpperRange {
  char32_t first;
  char32_t last;
  uint8_t value;
};
// Two characters that compose, the second one first. Sorted.
struct CompositionPair {
  char32_t second;
  char32_t first;
  char32_t composite;
};
// Every `stride`th character from `first` to `last` has another one in the other case: `target` has that of the first.
struct CaseRun {
  char32_t first;
  char32_t last;
  uint32_t stride;
  char32_t target;
};

#include "unicode/tables.inc"

// The character in the other case, or c itself.
template <size_t kCount>
char32_t map_case(const CaseRun (&runs)[kCount], char32_t c) {
  const auto* after = std::upper_bound(std::begin(runs), std::end(runs), c,
                                       [](char32_t value, const CaseRun& run) { return value < run.first; });
  if (after == std::begin(runs)) return c;
  const CaseRun& run = *std::prev(after);
  return c <= run.last && (c - run.first) % run.stride == 0 ? run.target + (c - run.first) : c;
}

}  // namespace tandem::unicode_tables
