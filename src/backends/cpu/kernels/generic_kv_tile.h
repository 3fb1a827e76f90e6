// Tiles of the KV cache, as attention reads them, and their masks. Included before generic_*attention.h; internal
// linkage (see simd_portable.h).
#pragma once

#include "backends/cpu/kernels/kv_layout.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kTileSlots = kAttentionTile;
constexpr int64_t kTilePairs = kTileSlots / 2;
constexpr int64_t kTileVectors = kTileSlots / kLanes;
constexpr int64_t kKeyTiles = kTileSlots / kKeySlots;  // Per tile of slots.
constexpr int64_t kKeyColumns = 2 * kTileSlots;        // Two entries per slot.

inline int64_t round_up_16(int64_t n) { return (n + 15) / 16 * 16; }
inline int64_t key_pairs(int64_t dim) { return (dim + 1) / 2; }

template <DType D>
struct NumberOf {
  using Type = float;
};
template <>
struct NumberOf<DType::kF16> {
  using Type = uint16_t;
};
template <>
struct NumberOf<DType::kU8> {
  using Type = uint8_t;
};
template <DType D>
using Number = typename NumberOf<D>::Type;

inline F load_number(const float* p) { return load(p); }
inline F load_number(const uint16_t* p) { return load_f16(p); }
inline float one_number(const float* p) { return *p; }
inline F load_number(const uint8_t* p) { return load_u8(p); }
inline float one_number(const uint8_t* p) { return static_cast<float>(*p); }
inline float one_number(const uint16_t* p) { return load_f16_n(p, 1)[0]; }

// Where the keys and values of a tile of slots are.
template <DType D>
struct CacheTile {
  const Number<D>* keys[kKeyTiles];     // [pairs][16][2] each
  const Number<D>* values[kTilePairs];  // [dim][2] each
};

// The keys of 16 slots from `first` on, with zeros past the end of the cache.
template <DType D>
inline const Number<D>* copy_keys(const AttentionTask& task, int64_t first, Number<D>* to) {
  const int64_t dim = task.dim, slots = task.k.slots;
  const auto* from = static_cast<const Number<D>*>(task.k.data);
  __builtin_memset(to, 0, static_cast<size_t>(key_pairs(dim) * 2 * kKeySlots) * sizeof(Number<D>));
  for (int64_t s = 0; s < kKeySlots && first + s < slots; ++s) {
    for (int64_t d = 0; d < dim; ++d) {
      to[d / 2 * 2 * kKeySlots + 2 * s + d % 2] = from[key_index(slots, dim, first + s, d)];
    }
  }
  return to;
}

// The same for the values of two slots.
template <DType D>
inline const Number<D>* copy_values(const AttentionTask& task, int64_t first, Number<D>* to) {
  const int64_t dim = task.dim, slots = task.v.slots;
  const auto* from = static_cast<const Number<D>*>(task.v.data);
  __builtin_memset(to, 0, static_cast<size_t>(2 * dim) * sizeof(Number<D>));
  for (int64_t s = 0; s < 2 && first + s < slots; ++s) {
    for (int64_t d = 0; d < dim; ++d) to[2 * d + s] = from[value_index(slots, dim, first + s, d)];
  }
  return to;
}

// `partial_keys` and `partial_values` hold kTileSlots and 4 rows of numbers.
template <DType D>
inline CacheTile<D> find_tile(const AttentionTask& task, int64_t begin, Number<D>* partial_keys,
                              Number<D>* partial_values) {
  CacheTile<D> tile;
  const int64_t dim = task.dim, padded = round_up_16(dim);
  const auto* keys = static_cast<const Number<D>*>(task.k.data);
  for (int64_t i = 0; i < kKeyTiles; ++i) {
    const int64_t first = begin + i * kKeySlots;
    const bool whole = first + kKeySlots <= task.k.slots && dim % 2 == 0;
    tile.keys[i] = whole ? keys + first * dim : copy_keys<D>(task, first, partial_keys + i * kKeySlots * padded);
  }
  const auto* values = static_cast<const Number<D>*>(task.v.data);
  for (int64_t j = 0; j < kTilePairs; ++j) {
    const int64_t first = begin + 2 * j;
    if (first + 2 <= task.v.slots) {
      tile.values[j] = values + first * dim;
    } else {
      // At most one pair has only its first slot; the pairs after it have none.
      const bool part = first < task.v.slots;
      tile.values[j] = copy_values<D>(task, first, partial_values + (part ? 0 : 2 * padded));
    }
  }
  return tile;
}

inline bool is_masked(const AttentionTask& task, int64_t token, int64_t slot) {
  return task.mask != nullptr && task.mask[token * task.mask_stride + slot] == -__builtin_inff();
}

// The mask of a token from slot `begin` on; null if it is 0 for all `count` slots.
inline const float* mask_of(const AttentionTask& task, int64_t token, int64_t begin, int64_t count) {
  const bool plain = task.plain_slots != nullptr && begin + count <= task.plain_slots[token];
  return task.mask == nullptr || plain ? nullptr : task.mask + token * task.mask_stride + begin;
}

inline bool any_visible(const AttentionTask& task, int64_t begin, int64_t count) {
  for (int64_t token = 0; token < task.tokens; ++token) {
    if (mask_of(task, token, begin, count) == nullptr) return true;
    for (int64_t s = 0; s < count; ++s) {
      if (!is_masked(task, token, begin + s)) return true;
    }
  }
  return false;
}

// Calls body(begin, count), in order, for the tiles in which some row sees a slot.
template <typename Body>
inline void each_tile(const AttentionTask& task, Body&& body) {
  const int64_t tiles = (task.slots + kTileSlots - 1) / kTileSlots;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = (task.first_tile + i) % tiles * kTileSlots;
    const int64_t count = task.slots - begin < kTileSlots ? task.slots - begin : kTileSlots;
    if (any_visible(task, begin, count)) body(begin, count);
  }
}

// Carves up a task's scratch memory, counted in floats. `memory` may be null, to find the total size.
struct ScratchParts {
  float* memory;
  int64_t size = 0;

  float* floats(int64_t count) {
    float* const part = memory == nullptr ? nullptr : memory + size;
    size += round_up_16(count);
    return part;
  }
  template <typename T>
  T* of(int64_t count) {
    constexpr auto kBytes = static_cast<int64_t>(sizeof(T));
    return reinterpret_cast<T*>(floats((count * kBytes + 3) / 4));
  }
};

}  // namespace
}  // namespace tandem::cpu
