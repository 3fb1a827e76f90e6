// Tiles of the KV cache, as attention reads them, and its scratch memory. Included before generic_attention.h; internal
// linkage (see simd_portable.h).
#pragma once

#include "backends/cpu/kernels/kv_layout.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kTileSlots = kAttentionTile;
constexpr int64_t kTilePairs = kTileSlots / 2;
constexpr int64_t kTileVectors = kTileSlots / kLanes;
constexpr int64_t kKeyTiles = kTileSlots / kKeySlots;  // Of a tile of slots.
constexpr int64_t kKeyColumns = 2 * kTileSlots;        // Two entries of each slot.

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
inline F load_number(const uint8_t* p) { return load_u8(p); }
inline float one_number(const float* p) { return *p; }
inline float one_number(const uint16_t* p) { return load_f16_n(p, 1)[0]; }
inline float one_number(const uint8_t* p) { return static_cast<float>(*p); }

// Parts of the task's scratch memory.
struct AttentionScratch {
  int64_t rows, padded_dim;
  float *keys, *values, *queries, *scores, *outputs, *maxima, *bases, *factors;
  float* sums;                           // kLanes of each row.
  float *key_scales, *key_minima;        // kU8, by column: each slot's twice.
  float *value_scales, *value_minima;    // kU8, by slot.
  float *partial_keys, *partial_values;  // Tiles and pairs that the cache has but a part of.
  int64_t size = 0;                      // Of all parts, in floats.

  // `memory` may be null, to find the size.
  AttentionScratch(float* memory, int64_t tokens, int64_t group, int64_t dim)
      : rows(tokens * group), padded_dim(round_up_16(dim)) {
    const auto take = [&](int64_t count) {
      float* const part = memory == nullptr ? nullptr : memory + size;
      size += round_up_16(count);
      return part;
    };
    keys = take(padded_dim / 2 * kKeyColumns);
    values = take(kTilePairs * 2 * padded_dim);
    queries = take(rows * padded_dim);
    scores = take(rows * kKeyColumns);
    outputs = take(rows * 2 * padded_dim);
    maxima = take(rows);
    bases = take(rows);
    factors = take(rows);
    sums = take(rows * kLanes);
    key_scales = take(kKeyColumns);
    key_minima = take(kKeyColumns);
    value_scales = take(kTileSlots);
    value_minima = take(kTileSlots);
    partial_keys = take(kTileSlots * padded_dim);
    partial_values = take(4 * padded_dim);
  }
};

uint64_t attention_scratch_floats(int64_t tokens, int64_t group, int64_t dim) {
  return static_cast<uint64_t>(AttentionScratch(nullptr, tokens, group, dim).size);
}

// A tile of slots: where its keys and values are.
template <DType D>
struct CacheTile {
  const Number<D>* keys[kKeyTiles];     // [pairs][16][2] each
  const Number<D>* values[kTilePairs];  // [dim][2] each
};

// What the cache has of 16 slots' keys from `first` on; zeros for the rest.
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

// The same of two slots' values.
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

template <DType D>
inline CacheTile<D> find_tile(const AttentionTask& task, const AttentionScratch& at, int64_t begin) {
  CacheTile<D> tile;
  const int64_t dim = task.dim;
  const auto* keys = static_cast<const Number<D>*>(task.k.data);
  for (int64_t i = 0; i < kKeyTiles; ++i) {
    const int64_t first = begin + i * kKeySlots;
    const bool whole = first + kKeySlots <= task.k.slots && dim % 2 == 0;
    auto* const room = reinterpret_cast<Number<D>*>(at.partial_keys + i * kKeySlots * at.padded_dim);
    tile.keys[i] = whole ? keys + first * dim : copy_keys<D>(task, first, room);
  }
  const auto* values = static_cast<const Number<D>*>(task.v.data);
  for (int64_t j = 0; j < kTilePairs; ++j) {
    const int64_t first = begin + 2 * j;
    if (first + 2 <= task.v.slots) {
      tile.values[j] = values + first * dim;
    } else {
      // One pair may have its first slot only; those behind it have none.
      const bool part = first < task.v.slots;
      float* const room = at.partial_values + (part ? 0 : 2 * at.padded_dim);
      tile.values[j] = copy_values<D>(task, first, reinterpret_cast<Number<D>*>(room));
    }
  }
  for (int64_t s = 0; s < kTileSlots; ++s) {
    if constexpr (D == DType::kU8) {
      const bool there = begin + s < task.k.slots;
      const float* const of = task.k.scale_and_min + 2 * (begin + s);
      at.key_scales[2 * s] = at.key_scales[2 * s + 1] = there ? of[0] : 0.0f;
      at.key_minima[2 * s] = at.key_minima[2 * s + 1] = there ? of[1] : 0.0f;
    }
    if constexpr (D == DType::kU8) {
      const bool there = begin + s < task.v.slots;
      const float* const of = task.v.scale_and_min + 2 * (begin + s);
      at.value_scales[s] = there ? of[0] : 0.0f;
      at.value_minima[s] = there ? of[1] : 0.0f;
    }
  }
  return tile;
}

// Columns of a tile's keys: two entries of each slot. Those of the tile behind it are fetched ahead.
template <DType D>
inline F key_numbers(const AttentionScratch& at, const CacheTile<D>& tile, int64_t dim, int64_t k, int64_t col) {
  const Number<D>* const place = tile.keys[col / (2 * kKeySlots)] + k * 2 * kKeySlots + col % (2 * kKeySlots);
  __builtin_prefetch(place + kTileSlots * dim);
  const F numbers = load_number(place);
  if constexpr (D == DType::kU8) {
    return fma(numbers, load(at.key_scales + col), load(at.key_minima + col));
  } else {
    return numbers;
  }
}

// Columns of the values of the tile's pair j of slots: each entry of both.
template <DType D>
inline F value_numbers(const AttentionScratch& at, const CacheTile<D>& tile, int64_t dim, int64_t j, int64_t col) {
  __builtin_prefetch(tile.values[j] + col + kTileSlots * dim);
  const F numbers = load_number(tile.values[j] + col);
  if constexpr (D == DType::kU8) {
    return fma(numbers, set1_pair(at.value_scales + 2 * j), set1_pair(at.value_minima + 2 * j));
  } else {
    return numbers;
  }
}

}  // namespace
}  // namespace tandem::cpu
