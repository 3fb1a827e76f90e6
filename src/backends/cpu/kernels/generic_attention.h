// Attention over one KV head. Included after one simd_*.h, generic_math.h and generic_elementwise.h; internal linkage
// (see simd_portable.h).
//
// Slots are taken in tiles of kTileSlots at fixed places. With many query rows a tile's keys and values become floats
// once and serve them all; with few they become floats in registers. The softmax is the online one (running maximum and
// sum). A row's arithmetic is the same whatever other rows are in the task, and a masked slot adds an exact zero,
// whatever the cache holds there.
#pragma once

namespace tandem::cpu {
namespace {

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

// scores[r][2 s] and [2 s + 1]: what the even and the odd entries of slot s give.
template <DType D>
inline void multiply_keys(const AttentionTask& task, const AttentionScratch& at, const CacheTile<D>& tile) {
  const int64_t pairs = key_pairs(task.dim);
  const auto column = [&](int64_t k, int64_t col) { return key_numbers(at, tile, task.dim, k, col); };
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

// One vector of a row's scores, scaled, capped and masked. n < kLanes: only so many slots are there.
inline F masked_scores(const AttentionTask& task, F score, const float* mask, int64_t n) {
  const F lowest = set1(-__builtin_inff());
  score = score * set1(task.scale);
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

// The scores of a tile become weights exp(score - maximum) in three passes over its rows, in which no row waits for the
// result of another one. First each row's maximum, and its scores from their halves.
inline void find_maxima(const AttentionTask& task, const AttentionScratch& at, int64_t begin, int64_t count) {
  for (int64_t row = 0; row < at.rows; ++row) {
    float* const scores = at.scores + row * kKeyColumns;
    const float* const mask = mask_of(task, row / task.group, begin, count);
    F largest = set1(at.maxima[row]);
    TANDEM_UNROLL for (int64_t v = 0; v < kTileVectors; ++v) {
      const float* const halves = scores + 2 * v * kLanes;
      const F sums = add_pairs(load(halves), load(halves + kLanes));
      const F score = masked_scores(task, sums, mask == nullptr ? nullptr : mask + v * kLanes, count - v * kLanes);
      largest = vmax(score, largest);
      store(scores + v * kLanes, score);  // The halves that it covers have been read.
    }
    at.bases[row] = hmax(largest);
  }
}

// Then what earlier tiles' sums have to be multiplied with.
inline void find_factors(const AttentionScratch& at) {
  const F lowest = set1(-__builtin_inff());
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    const F next = load(at.bases + row);
    // While nothing is visible the maximum is -infinity; 0 in its place gives weights of exp(-infinity) = 0.
    const F base = next == lowest ? set1(0.0f) : next;
    store(at.factors + row, exp_vector(load(at.maxima + row) - base));
    store(at.maxima + row, next);
    store(at.bases + row, base);
  }
}

// Then a row's weights, and their sums.
inline void find_weights(const AttentionScratch& at, int64_t row) {
  float* const scores = at.scores + row * kKeyColumns;
  F sum = load(at.sums + row * kLanes) * set1(at.factors[row]);
  TANDEM_UNROLL for (int64_t v = 0; v < kTileVectors; ++v) {
    const F weight = exp_vector(load(scores + v * kLanes) - set1(at.bases[row]));
    sum = sum + weight;
    store(scores + v * kLanes, weight);
  }
  store(at.sums + row * kLanes, sum);
}

inline void softmax_tile(const AttentionTask& task, const AttentionScratch& at, int64_t begin, int64_t count) {
  find_maxima(task, at, begin, count);
  find_factors(at);
  for (int64_t row = 0; row < at.rows; ++row) find_weights(at, row);
}

// outputs[r][2 d] and [2 d + 1]: what even and odd slots give, added to what earlier tiles gave. `careful`: values that
// are no numbers, which times a weight of zero would give NaN in rows that must not see them, count where they are seen
// only.
template <DType D>
inline void multiply_values(const AttentionTask& task, const AttentionScratch& at, const CacheTile<D>& tile,
                            int64_t begin, int64_t count, bool careful) {
  const int64_t dim = task.dim, cols = 2 * at.padded_dim, pairs = (count + 1) / 2;
  const auto column = [&](int64_t j, int64_t col) { return value_numbers(at, tile, dim, j, col); };
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
            D == DType::kU8 ? fma(set1(number), set1(at.value_scales[slot]), set1(at.value_minima[slot]))[0] : number;
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
        if (D == DType::kU8) number = number * at.value_scales[s] + at.value_minima[s];
        at.outputs[row * cols + 2 * d + s % 2] += at.scores[row * kKeyColumns + s] * number;
      }
    }
  }
}

inline void clear_results(const AttentionScratch& at) {
  for (int64_t row = 0; row < at.rows; ++row) {
    const int64_t width = 2 * at.padded_dim;
    for (int64_t d = 0; d < width; d += kLanes) store(at.outputs + row * width + d, set1(0.0f));
    store(at.sums + row * kLanes, set1(0.0f));
  }
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    store(at.maxima + row, set1(-__builtin_inff()));
    // Whole vectors of rows are computed with: what is in the last one, is a number.
    store(at.bases + row, set1(0.0f));
  }
}

// Calls body(begin, count) for the tiles that a row can see something of, in their order.
template <typename Body>
inline void each_tile(const AttentionTask& task, Body&& body) {
  const int64_t tiles = (task.slots + kTileSlots - 1) / kTileSlots;
  for (int64_t i = 0; i < tiles; ++i) {
    const int64_t begin = (task.first_tile + i) % tiles * kTileSlots;
    const int64_t count = task.slots - begin < kTileSlots ? task.slots - begin : kTileSlots;
    if (any_visible(task, begin, count)) body(begin, count);
  }
}

// False if there is something in the result that is no number, and it was not computed carefully.
template <DType D>
bool attention_typed(const AttentionTask& task, bool careful) {
  const AttentionScratch at(task.scratch, task.tokens, task.group, task.dim);
  const int64_t padded = at.padded_dim;
  for (int64_t row = 0; row < at.rows; ++row) {
    const float* q = task.q + row / task.group * task.q_stride + row % task.group * task.dim;
    __builtin_memcpy(at.queries + row * padded, q, static_cast<size_t>(task.dim) * sizeof(float));
    for (int64_t d = task.dim; d < padded; ++d) at.queries[row * padded + d] = 0.0f;
  }
  clear_results(at);
  each_tile(task, [&](int64_t begin, int64_t count) {
    const CacheTile<D> tile = find_tile<D>(task, at, begin);
    multiply_keys(task, at, tile);
    softmax_tile(task, at, begin, count);
    multiply_values(task, at, tile, begin, count, careful);
  });
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

template <DType D>
inline void attention_of_type(const AttentionTask& task) {
  if (!attention_typed<D>(task, false)) attention_typed<D>(task, true);
}

void attention(const AttentionTask& task) {
  switch (task.k.dtype) {
    case DType::kF16: attention_of_type<DType::kF16>(task); return;
    case DType::kU8: attention_of_type<DType::kU8>(task); return;
    default: attention_of_type<DType::kF32>(task); return;
  }
}

}  // namespace
}  // namespace tandem::cpu
