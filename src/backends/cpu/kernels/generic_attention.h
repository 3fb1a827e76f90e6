// Attention over one KV head in floats. Included after one simd_*.h, generic_math.h and generic_elementwise.h; internal
// linkage (see simd_portable.h).
//
// Slots are processed in tiles of kTileSlots with fixed boundaries. With many query rows a tile's keys and values are
// converted to float once for all of them; with few they are converted in registers. The softmax is the online one
// (running maximum and sum). A row's arithmetic does not depend on the other rows of the task, and a masked slot adds
// an exact zero, whatever the cache holds there.
#pragma once

namespace tandem::cpu {
namespace {

// Scratch memory of one task.
struct AttentionScratch {
  int64_t rows, padded_dim;
  float *keys, *values, *queries, *scores, *outputs, *maxima, *bases, *factors;
  float* sums;                           // kLanes per row.
  float *key_scales, *key_minima;        // kU8, by column: each slot's value twice.
  float *value_scales, *value_minima;    // kU8, by slot.
  float *partial_keys, *partial_values;  // Tiles and pairs of slots that extend past the end of the cache.
  int64_t size = 0;                      // Of all parts, in floats.

  // `memory` may be null, to find the size.
  AttentionScratch(float* memory, int64_t tokens, int64_t group, int64_t dim)
      : rows(tokens * group), padded_dim(round_up_16(dim)) {
    ScratchParts parts{memory};
    keys = parts.floats(padded_dim / 2 * kKeyColumns);
    values = parts.floats(kTilePairs * 2 * padded_dim);
    queries = parts.floats(rows * padded_dim);
    scores = parts.floats(rows * kKeyColumns);
    outputs = parts.floats(rows * 2 * padded_dim);
    maxima = parts.floats(rows);
    bases = parts.floats(rows);
    factors = parts.floats(rows);
    sums = parts.floats(rows * kLanes);
    key_scales = parts.floats(kKeyColumns);
    key_minima = parts.floats(kKeyColumns);
    value_scales = parts.floats(kTileSlots);
    value_minima = parts.floats(kTileSlots);
    partial_keys = parts.floats(kTileSlots * padded_dim);
    partial_values = parts.floats(4 * padded_dim);
    size = parts.size;
  }
};

// kU8: the scales and minima of a tile's slots.
inline void read_scales(const AttentionTask& task, const AttentionScratch& at, int64_t begin) {
  for (int64_t s = 0; s < kTileSlots; ++s) {
    const bool there = begin + s < task.k.slots;
    const float* const key = task.k.scale_and_min + 2 * (begin + s);
    const float* const value = task.v.scale_and_min + 2 * (begin + s);
    at.key_scales[2 * s] = at.key_scales[2 * s + 1] = there ? key[0] : 0.0f;
    at.key_minima[2 * s] = at.key_minima[2 * s + 1] = there ? key[1] : 0.0f;
    at.value_scales[s] = there ? value[0] : 0.0f;
    at.value_minima[s] = there ? value[1] : 0.0f;
  }
}

// Columns of a tile's keys: two entries per slot. Prefetches the same columns of the next tile.
template <DType D>
inline F key_numbers(const AttentionScratch& at, const CacheTile<D>& tile, int64_t dim, int64_t k, int64_t col) {
  const Number<D>* const source = tile.keys[col / (2 * kKeySlots)] + k * 2 * kKeySlots + col % (2 * kKeySlots);
  __builtin_prefetch(source + kTileSlots * dim);
  const F numbers = load_number(source);
  if constexpr (D == DType::kU8) {
    return fma(numbers, load(at.key_scales + col), load(at.key_minima + col));
  } else {
    return numbers;
  }
}

// Columns of the values of slot pair j of the tile: each entry of both slots.
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

// scores[r][2 s] and [2 s + 1]: the partial sums over the even and the odd entries of slot s.
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

// One vector of a row's scores, scaled, capped and masked. n < kLanes: only n slots exist.
inline F masked_scores(const AttentionTask& task, F score, const float* mask, int64_t n) {
  const F lowest = set1(-__builtin_inff());
  score = score * set1(task.scale);
  if (task.softcap != 0.0f) score = set1(task.softcap) * tanh_vector(score / set1(task.softcap));
  if (n >= kLanes) {
    if (mask == nullptr) return score;
    const F m = load(mask);
    return m == lowest ? lowest : score + m;  // No addition here: the score of a masked slot may be NaN.
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

// The scores of a tile become weights exp(score - maximum) in three passes over its rows, so that no row waits for
// another row's result. First each row's maximum, and its scores from their partial sums.
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
      store(scores + v * kLanes, score);  // The partial sums that this overwrites have been read.
    }
    at.bases[row] = hmax(largest);
  }
}

// Second, the factor that rescales the sums of earlier tiles.
inline void find_factors(const AttentionScratch& at) {
  const F lowest = set1(-__builtin_inff());
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    const F next = load(at.bases + row);
    // While nothing is visible the maximum is -infinity; 0 instead gives weights of exp(-infinity) = 0.
    const F base = next == lowest ? set1(0.0f) : next;
    store(at.factors + row, exp_of_negative(load(at.maxima + row) - base));
    store(at.maxima + row, next);
    store(at.bases + row, base);
  }
}

// Third, a row's weights and their sum.
inline void find_weights(const AttentionScratch& at, int64_t row) {
  float* const scores = at.scores + row * kKeyColumns;
  F sum = load(at.sums + row * kLanes) * set1(at.factors[row]);
  TANDEM_UNROLL for (int64_t v = 0; v < kTileVectors; ++v) {
    const F weight = exp_of_negative(load(scores + v * kLanes) - set1(at.bases[row]));
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

// outputs[r][2 d] and [2 d + 1]: the sums over even and odd slots, added to those of earlier tiles. `careful`: a
// non-finite value times a weight of zero would be NaN in rows that must not see it, so such values are added only to
// rows that do.
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
  uint64_t odd = 0;  // Slots with non-finite values.
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
    // Rows are processed in whole vectors: initialize the lanes past the last row.
    store(at.bases + row, set1(0.0f));
  }
}

// False if the result has a non-finite number and was not computed carefully.
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
    const CacheTile<D> tile = find_tile<D>(task, begin, reinterpret_cast<Number<D>*>(at.partial_keys),
                                           reinterpret_cast<Number<D>*>(at.partial_values));
    if (D == DType::kU8) read_scales(task, at, begin);
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
      // Adding 0 turns -0 into 0, so that skipped tiles and tiles of zero weights give the same bits.
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

}  // namespace
}  // namespace tandem::cpu
