// Attention over one KV head. Included after one simd_*.h, generic_math.h and generic_elementwise.h; internal linkage
// (see simd_portable.h).
//
// Slots are taken in tiles of kTileSlots at fixed places. With many query rows a tile's keys and values become floats
// once and serve them all; with few they become floats in registers. The softmax is the online one (running maximum and
// sum). A row's arithmetic is the same whatever other rows are in the task, and a masked slot adds an exact zero,
// whatever the cache holds there.
#pragma once

#include "backends/cpu/kernels/kv_layout.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kTileSlots = kAttentionTile;
constexpr int64_t kTilePairs = kTileSlots / 2;
constexpr int64_t kKeyTiles = kTileSlots / kKeySlots;  // Of a tile of slots.
constexpr int64_t kKeyColumns = 2 * kTileSlots;        // Two entries of each slot.

inline int64_t round_up_16(int64_t n) { return (n + 15) / 16 * 16; }
inline int64_t key_pairs(int64_t dim) { return (dim + 1) / 2; }

// ---- Reading the cache ----

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
template <DType K, DType V>
struct CacheTile {
  const Number<K>* keys[kKeyTiles];     // [pairs][16][2] each
  const Number<V>* values[kTilePairs];  // [dim][2] each
};

// What the cache has of 16 slots' keys from `first` on; zeros for the rest.
template <DType K>
inline const Number<K>* copy_keys(const AttentionTask& task, int64_t first, Number<K>* to) {
  const int64_t dim = task.dim, slots = task.k.slots;
  const auto* from = static_cast<const Number<K>*>(task.k.data);
  __builtin_memset(to, 0, static_cast<size_t>(key_pairs(dim) * 2 * kKeySlots) * sizeof(Number<K>));
  for (int64_t s = 0; s < kKeySlots && first + s < slots; ++s) {
    for (int64_t d = 0; d < dim; ++d) {
      to[d / 2 * 2 * kKeySlots + 2 * s + d % 2] = from[key_index(slots, dim, first + s, d)];
    }
  }
  return to;
}

// The same of two slots' values.
template <DType V>
inline const Number<V>* copy_values(const AttentionTask& task, int64_t first, Number<V>* to) {
  const int64_t dim = task.dim, slots = task.v.slots;
  const auto* from = static_cast<const Number<V>*>(task.v.data);
  __builtin_memset(to, 0, static_cast<size_t>(2 * dim) * sizeof(Number<V>));
  for (int64_t s = 0; s < 2 && first + s < slots; ++s) {
    for (int64_t d = 0; d < dim; ++d) to[2 * d + s] = from[value_index(slots, dim, first + s, d)];
  }
  return to;
}

template <DType K, DType V>
inline CacheTile<K, V> find_tile(const AttentionTask& task, const AttentionScratch& at, int64_t begin) {
  CacheTile<K, V> tile;
  const int64_t dim = task.dim;
  const auto* keys = static_cast<const Number<K>*>(task.k.data);
  for (int64_t i = 0; i < kKeyTiles; ++i) {
    const int64_t first = begin + i * kKeySlots;
    const bool whole = first + kKeySlots <= task.k.slots && dim % 2 == 0;
    auto* const room = reinterpret_cast<Number<K>*>(at.partial_keys + i * kKeySlots * at.padded_dim);
    tile.keys[i] = whole ? keys + first * dim : copy_keys<K>(task, first, room);
  }
  const auto* values = static_cast<const Number<V>*>(task.v.data);
  for (int64_t j = 0; j < kTilePairs; ++j) {
    const int64_t first = begin + 2 * j;
    if (first + 2 <= task.v.slots) {
      tile.values[j] = values + first * dim;
    } else {
      // One pair may have its first slot only; those behind it have none.
      const bool part = first < task.v.slots;
      float* const room = at.partial_values + (part ? 0 : 2 * at.padded_dim);
      tile.values[j] = copy_values<V>(task, first, reinterpret_cast<Number<V>*>(room));
    }
  }
  for (int64_t s = 0; s < kTileSlots; ++s) {
    if constexpr (K == DType::kU8) {
      const bool there = begin + s < task.k.slots;
      const float* const of = task.k.scale_and_min + 2 * (begin + s);
      at.key_scales[2 * s] = at.key_scales[2 * s + 1] = there ? of[0] : 0.0f;
      at.key_minima[2 * s] = at.key_minima[2 * s + 1] = there ? of[1] : 0.0f;
    }
    if constexpr (V == DType::kU8) {
      const bool there = begin + s < task.v.slots;
      const float* const of = task.v.scale_and_min + 2 * (begin + s);
      at.value_scales[s] = there ? of[0] : 0.0f;
      at.value_minima[s] = there ? of[1] : 0.0f;
    }
  }
  return tile;
}

// ---- The steps of a tile ----

inline bool is_masked(const AttentionTask& task, int64_t token, int64_t slot) {
  return task.mask != nullptr && task.mask[token * task.mask_stride + slot] == -__builtin_inff();
}

inline bool any_visible(const AttentionTask& task, int64_t begin, int64_t count) {
  if (task.mask == nullptr) return true;
  for (int64_t token = 0; token < task.tokens; ++token) {
    for (int64_t s = 0; s < count; ++s) {
      if (!is_masked(task, token, begin + s)) return true;
    }
  }
  return false;
}

// scores[r][2 s] and [2 s + 1]: what the even and the odd entries of slot s give.
template <DType K, DType V>
inline void multiply_keys(const AttentionTask& task, const AttentionScratch& at, const CacheTile<K, V>& tile) {
  const int64_t pairs = key_pairs(task.dim);
  const auto column = [&](int64_t k, int64_t col) {
    const Number<K>* const at_column = tile.keys[col / (2 * kKeySlots)] + k * 2 * kKeySlots + col % (2 * kKeySlots);
    __builtin_prefetch(at_column + kTileSlots * task.dim);
    const F numbers = load_number(at_column);
    if constexpr (K == DType::kU8) {
      return fma(numbers, load(at.key_scales + col), load(at.key_minima + col));
    } else {
      return numbers;
    }
  };
  const Product product{at.queries, at.padded_dim, pairs, kKeyColumns, at.scores, nullptr};
  if (at.rows <= kMatmulRows) {
    multiply(at.rows, product, column);
    return;
  }
  for (int64_t k = 0; k < pairs; ++k) {
    for (int64_t col = 0; col < kKeyColumns; col += kLanes) store(at.keys + k * kKeyColumns + col, column(k, col));
  }
  multiply(at.rows, product, [&](int64_t k, int64_t col) { return load(at.keys + k * kKeyColumns + col); });
}

// One vector of a row's scores, in both halves, with the mask. n < kLanes: only so many slots are there.
inline F masked_scores(const AttentionTask& task, const float* halves, const float* mask, int64_t n) {
  const F lowest = set1(-__builtin_inff());
  F score = add_pairs(load(halves), load(halves + kLanes)) * set1(task.scale);
  if (task.softcap != 0.0f) score = set1(task.softcap) * tanh_vector(score / set1(task.softcap));
  if (n >= kLanes) {
    if (mask == nullptr) return score;
    const F m = load(mask);
    return m == lowest ? lowest : score + m;  // Not a sum: the score of a masked slot may be NaN.
  }
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i >= n || (mask != nullptr && mask[i] == -__builtin_inff())) {
      score[i] = -__builtin_inff();
    } else if (mask != nullptr) {
      score[i] += mask[i];
    }
  }
  return score;
}

// The scores of a tile to weights exp(score - maximum), in three passes over its rows, in which no row waits for the
// result of another one: each row's maximum; what earlier tiles' sums have to be multiplied with because of it; weights
// and sums.
inline void softmax_tile(const AttentionTask& task, const AttentionScratch& at, int64_t begin, int64_t count) {
  constexpr int64_t kVectors = kTileSlots / kLanes;
  for (int64_t row = 0; row < at.rows; ++row) {
    float* const scores = at.scores + row * kKeyColumns;
    const float* const mask = task.mask == nullptr ? nullptr : task.mask + row / task.group * task.mask_stride + begin;
    F largest = set1(at.maxima[row]);
    TANDEM_UNROLL for (int64_t v = 0; v < kVectors; ++v) {
      const float* const m = mask == nullptr ? nullptr : mask + v * kLanes;
      const F score = masked_scores(task, scores + 2 * v * kLanes, m, count - v * kLanes);
      largest = vmax(score, largest);
      store(scores + v * kLanes, score);  // The halves that it covers have been read.
    }
    at.bases[row] = hmax(largest);
  }
  const F lowest = set1(-__builtin_inff());
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    const F next = load(at.bases + row);
    // While nothing is visible the maximum is -infinity; 0 in its place gives weights of exp(-infinity) = 0.
    const F base = next == lowest ? set1(0.0f) : next;
    store(at.factors + row, exp_vector(load(at.maxima + row) - base));
    store(at.maxima + row, next);
    store(at.bases + row, base);
  }
  for (int64_t row = 0; row < at.rows; ++row) {
    float* const scores = at.scores + row * kKeyColumns;
    const F base = set1(at.bases[row]);
    F sum = load(at.sums + row * kLanes) * set1(at.factors[row]);
    TANDEM_UNROLL for (int64_t v = 0; v < kVectors; ++v) {
      const F weight = exp_vector(load(scores + v * kLanes) - base);
      sum = sum + weight;
      store(scores + v * kLanes, weight);
    }
    store(at.sums + row * kLanes, sum);
  }
}

// outputs[r][2 d] and [2 d + 1]: what even and odd slots give, added to what earlier tiles gave. `careful`: values that
// are no numbers, which times a weight of zero would give NaN in rows that must not see them, count where they are seen
// only.
template <DType K, DType V>
inline void multiply_values(const AttentionTask& task, const AttentionScratch& at, const CacheTile<K, V>& tile,
                            int64_t begin, int64_t count, bool careful) {
  const int64_t dim = task.dim, cols = 2 * at.padded_dim, pairs = (count + 1) / 2;
  const auto column = [&](int64_t j, int64_t col) {
    __builtin_prefetch(tile.values[j] + col + kTileSlots * dim);
    const F numbers = load_number(tile.values[j] + col);
    if constexpr (V == DType::kU8) {
      return fma(numbers, set1_pair(at.value_scales + 2 * j), set1_pair(at.value_minima + 2 * j));
    } else {
      return numbers;
    }
  };
  const Product product{at.scores, kKeyColumns, pairs, cols, at.outputs, at.factors};
  if (at.rows <= kMatmulRows && dim == at.padded_dim && !careful) {
    multiply(at.rows, product, column);
    return;
  }
  uint64_t odd = 0;  // Slots whose values are not all numbers.
  for (int64_t j = 0; j < pairs; ++j) {
    float* const row = at.values + j * cols;
    const int64_t whole = 2 * dim / kLanes * kLanes;
    for (int64_t col = 0; col < whole; col += kLanes) store(row + col, column(j, col));
    for (int64_t col = whole; col < cols; ++col) {
      if (col >= 2 * dim) {
        row[col] = 0.0f;
      } else {
        const float number = one_number(tile.values[j] + col);
        const int64_t slot = 2 * j + col % 2;
        row[col] =
            V == DType::kU8 ? fma(set1(number), set1(at.value_scales[slot]), set1(at.value_minima[slot]))[0] : number;
      }
    }
    for (int64_t col = 0; careful && col < 2 * dim; ++col) {
      if (!(row[col] - row[col] == 0.0f)) odd |= uint64_t{1} << (2 * j + col % 2);
    }
    for (int64_t col = 0; odd >> (2 * j) != 0 && col < 2 * dim; ++col) {
      if ((odd >> (2 * j + col % 2) & 1) != 0) row[col] = 0.0f;
    }
  }
  multiply(at.rows, product, [&](int64_t j, int64_t col) { return load(at.values + j * cols + col); });
  for (int64_t s = 0; odd != 0 && s < count; ++s) {
    if ((odd >> s & 1) == 0) continue;
    for (int64_t row = 0; row < at.rows; ++row) {
      if (is_masked(task, row / task.group, begin + s)) continue;
      for (int64_t d = 0; d < dim; ++d) {
        float number = one_number(tile.values[s / 2] + 2 * d + s % 2);
        if (V == DType::kU8) number = number * at.value_scales[s] + at.value_minima[s];
        at.outputs[row * cols + 2 * d + s % 2] += at.scores[row * kKeyColumns + s] * number;
      }
    }
  }
}

// False if there is something in the result that is no number, and it was not computed carefully.
template <DType K, DType V>
bool attention_typed(const AttentionTask& task, bool careful) {
  const AttentionScratch at(task.scratch, task.tokens, task.group, task.dim);
  const int64_t padded = at.padded_dim;
  for (int64_t row = 0; row < at.rows; ++row) {
    const float* q = task.q + row / task.group * task.q_stride + row % task.group * task.dim;
    __builtin_memcpy(at.queries + row * padded, q, static_cast<size_t>(task.dim) * sizeof(float));
    for (int64_t d = task.dim; d < padded; ++d) at.queries[row * padded + d] = 0.0f;
    for (int64_t d = 0; d < 2 * padded; d += kLanes) store(at.outputs + row * 2 * padded + d, set1(0.0f));
    store(at.sums + row * kLanes, set1(0.0f));
  }
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    store(at.maxima + row, set1(-__builtin_inff()));
    store(at.bases + row,
          set1(0.0f));  // Whole vectors of rows are computed with: what is in the last one, is a number.
  }
  const int64_t tiles = (task.slots + kTileSlots - 1) / kTileSlots;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = (task.first_tile + i) % tiles * kTileSlots;
    const int64_t count = task.slots - begin < kTileSlots ? task.slots - begin : kTileSlots;
    if (!any_visible(task, begin, count)) continue;
    const CacheTile<K, V> tile = find_tile<K, V>(task, at, begin);
    multiply_keys(task, at, tile);
    softmax_tile(task, at, begin, count);
    multiply_values(task, at, tile, begin, count, careful);
  }
  F broken = set1(0.0f);
  for (int64_t row = 0; row < at.rows; ++row) {
    float* out = task.out + row / task.group * task.out_stride + row % task.group * task.dim;
    const float sum = hsum(load(at.sums + row * kLanes));
    const F inverse = set1(sum == 0.0f ? 0.0f : 1.0f / sum);
    for (int64_t d = 0; d < task.dim; d += kLanes) {
      const float* const halves = at.outputs + row * 2 * padded + 2 * d;
      // Adding 0 turns -0 into 0: skipped tiles and tiles of zero weights then give the same bits.
      const F mixed = add_pairs(load(halves), load(halves + kLanes)) * inverse + set1(0.0f);
      broken = broken + (mixed - mixed);
      task.dim - d >= kLanes ? store(out + d, mixed) : store_n(out + d, mixed, task.dim - d);
    }
  }
  return careful || hsum(broken) == 0.0f;
}

template <DType K, DType V>
inline void attention_of_types(const AttentionTask& task) {
  if (!attention_typed<K, V>(task, false)) attention_typed<K, V>(task, true);
}

template <DType K>
inline void attention_by_value_type(const AttentionTask& task) {
  switch (task.v.dtype) {
    case DType::kF16: attention_of_types<K, DType::kF16>(task); return;
    case DType::kU8: attention_of_types<K, DType::kU8>(task); return;
    default: attention_of_types<K, DType::kF32>(task); return;
  }
}

void attention(const AttentionTask& task) {
  switch (task.k.dtype) {
    case DType::kF16: attention_by_value_type<DType::kF16>(task); return;
    case DType::kU8: attention_by_value_type<DType::kU8>(task); return;
    default: attention_by_value_type<DType::kF32>(task); return;
  }
}

}  // namespace
}  // namespace tandem::cpu
