// The layout of a KV head. Both products of attention multiply pairs of inputs: pairs of a key's entries, and pairs of
// slots of the values. So pairs are adjacent, as the matrix units of CPUs want them, and nothing has to be transposed
// on reading.
//   keys    tiles of 16 slots; in a tile [dim / 2][16 slots][2 entries]
//   values  [slot / 2][dim][2 slots]
// The last tile, pair of slots or pair of entries has what is left: there is no padding.
#pragma once

#include <cstdint>

namespace tandem::cpu {
namespace {

constexpr int64_t kKeySlots = 16;  // NOLINT(misc-definitions-in-headers): each instruction set has its own.

// Entry d of slot `slot`, counted in numbers, in a head of `slots` slots.
inline int64_t key_index(int64_t slots, int64_t dim, int64_t slot, int64_t d) {
  const int64_t first = slot / kKeySlots * kKeySlots, pair = d / 2 * 2;
  const int64_t width = slots - first < kKeySlots ? slots - first : kKeySlots;
  return first * dim + pair * width + (slot - first) * (pair + 1 < dim ? 2 : 1) + d % 2;
}
inline int64_t value_index(int64_t slots, int64_t dim, int64_t slot, int64_t d) {
  const int64_t first = slot / 2 * 2;
  return first * dim + d * (first + 1 < slots ? 2 : 1) + slot % 2;
}

}  // namespace
}  // namespace tandem::cpu
