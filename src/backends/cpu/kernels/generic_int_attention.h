// Attention over one u8 KV head in integer arithmetic. Included after generic_kv_tile.h; internal linkage (see
// simd_portable.h).
//
// Keys and values are multiplied as stored, in u8. Queries are quantized to int16, one scale each
// (numerics/fake_quant.h). So are the weights of a tile of slots, relative to the tile's largest. A value is scale * q
// + minimum with its slot's scale and minimum, so what is quantized is weight * scale, and
//   sum of weight * value = sum of (weight * scale) * q + sum of weight * minimum.
// With scores to the base 2, multiplying by a scale is adding its logarithm, and a tile's weights are
//   2^(score + log2(scale) - the largest of these in the tile).
// Integer sums are exact, so rounding happens only once per slot and once per tile: a row's arithmetic does not depend
// on the other rows of the task. A masked slot adds an exact zero, whatever it holds.
#pragma once

namespace tandem::cpu {
namespace {

constexpr float kLog2OfE = 1.44269504f;

struct IntScratch {
  int64_t rows, padded_dim;
  int16_t* keys;     // [pairs of entries][slots][2]
  int16_t* values;   // [pairs of slots][padded_dim][2]
  int16_t* queries;  // [rows][padded_dim]
  int16_t* weights;  // [rows][slots]
  float* scores;     // [rows][slots]
  float* outputs;    // [rows][padded_dim]
  float* largest;    // kLanes per row: maxima of a tile's scores.
  // Sums of weights, and of weights * minima: kLanes per row.
  float *sums, *offsets;
  // By row. The factor and the sum of a query's quantized values;
  float *query_factors, *query_sums;
  // the largest score so far, that of the tile, and the factors of older sums and of the tile's.
  float *maxima, *bases, *old_factors, *new_factors;
  const float** masks;  // See mask_of().
  // By slot of a tile: log2(scale), 1 / scale and minimum / scale of the values.
  float *key_scales, *key_minima, *logs, *inverses, *ratios;
  uint8_t *partial_keys, *partial_values;
  int64_t size = 0;  // Of all parts, in floats.

  IntScratch(float* memory, int64_t tokens, int64_t group, int64_t dim)
      : rows(tokens * group), padded_dim(round_up_16(dim)) {
    ScratchParts parts{memory};
    keys = parts.of<int16_t>(padded_dim * kTileSlots);
    values = parts.of<int16_t>(kTileSlots * padded_dim);
    queries = parts.of<int16_t>(rows * padded_dim);
    weights = parts.of<int16_t>(rows * kTileSlots);
    scores = parts.floats(rows * kTileSlots);
    outputs = parts.floats(rows * padded_dim);
    for (float** part : {&largest, &sums, &offsets}) *part = parts.floats(rows * kLanes);
    for (float** part : {&query_factors, &query_sums, &maxima, &bases, &old_factors, &new_factors}) {
      *part = parts.floats(rows);
    }
    masks = parts.of<const float*>(rows);
    for (float** part : {&key_scales, &key_minima, &logs, &inverses, &ratios}) *part = parts.floats(kTileSlots);
    partial_keys = parts.of<uint8_t>(kTileSlots * padded_dim);
    partial_values = parts.of<uint8_t>(4 * padded_dim);
    size = parts.size;
  }
};

// The lower 16 bits of each lane: the nearest integer, for a float with kRoundMagic added.
inline void store_low_words(int16_t* p, U bits) {
  typedef int16_t Words __attribute__((vector_size(2 * kLanes)));
  const Words words = __builtin_convertvector((I)bits, Words);
  __builtin_memcpy(p, &words, sizeof(words));
}

// Rows times columns, all int16.
struct WordProduct {
  const int16_t* a;
  int64_t a_stride;
  int64_t pairs;
  int64_t cols;  // A multiple of kLanes.
};

// R rows from `row` on, V vectors of columns from `col` on: source(k, column) returns kLanes pairs of the right-hand
// side, and use(row, column, sums) gets the sums as floats. Both are taken by value, so that the compiler knows that no
// store changes their state.
template <int R, int V, typename Source, typename Use>
inline void word_tile(const WordProduct p, int64_t row, int64_t col, Source source, Use use) {
  PairSums sum[R][V] = {};
  const int16_t* const a = p.a + row * p.a_stride;
  for (int64_t k = 0; k < p.pairs; ++k) {
    W right[V];
    TANDEM_UNROLL for (int v = 0; v < V; ++v) right[v] = source(k, col + v * kLanes);
    TANDEM_UNROLL for (int r = 0; r < R; ++r) {
      const W left = set1_words(a + r * p.a_stride + 2 * k);
      TANDEM_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = add_products(sum[r][v], left, right[v]);
    }
  }
  TANDEM_UNROLL for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL for (int v = 0; v < V; ++v) use(row + r, col + v * kLanes, float_sums(sum[r][v]));
  }
}

template <int R, typename Source, typename Use>
inline void multiply_word_rows(const WordProduct& p, int64_t row, int64_t rows, Source source, Use use) {
  if constexpr (R > 0) {
    if (rows < R) {
      multiply_word_rows<R - 1>(p, row, rows, source, use);
      return;
    }
    int64_t col = 0;
    for (; col + kWordVectors * kLanes <= p.cols; col += kWordVectors * kLanes) {
      word_tile<R, kWordVectors>(p, row, col, source, use);
    }
    for (; col < p.cols; col += kLanes) word_tile<R, 1>(p, row, col, source, use);
  }
}
template <typename Source, typename Use>
inline void multiply_words(int64_t rows, const WordProduct& p, Source source, Use use) {
  int64_t row = 0;
  for (; row + kWordRows <= rows; row += kWordRows) multiply_word_rows<kWordRows>(p, row, kWordRows, source, use);
  multiply_word_rows<kWordRows - 1>(p, row, rows - row, source, use);
}

inline void quantize_query(const float* q, int64_t dim, int64_t row, const AttentionTask& task, const IntScratch& at) {
  int16_t* const quantized = at.queries + row * at.padded_dim;
  const RowScale range = find_row_scale(q, dim, kInt16Top);
  const bool has_inverse = range.has_nonzero && !range.is_tiny();
  const F inverse = set1(has_inverse ? kInt16Top / range.largest : 0.0f);
  F total = set1(0.0f);
  for (int64_t d = 0; d < at.padded_dim; d += kLanes) {
    const F x = d + kLanes <= dim ? load(q + d) : d < dim ? load_n(q + d, dim - d) : set1(0.0f);
    F scaled = x * inverse;
    if (!has_inverse) scaled = range.has_nonzero ? x / set1(range.largest) * set1(kInt16Top) : set1(0.0f);
    const F shifted = scaled + set1(kRoundMagic);
    store_low_words(quantized + d, (U)shifted);
    total = total + (shifted - set1(kRoundMagic));
  }
  at.query_sums[row] = hsum(total);
  at.query_factors[row] = range.scale * task.scale * (task.softcap == 0.0f ? kLog2OfE : 1.0f / task.softcap);
}

// first[s] and second[s] = the two numbers of pair s, for all slots of a tile: zeros from `count` on.
inline void split_pairs(const float* __restrict pairs, int64_t count, float* __restrict first,
                        float* __restrict second) {
  if (count == kTileSlots) {
    for (int64_t s = 0; s < kTileSlots; ++s) {
      first[s] = pairs[2 * s];
      second[s] = pairs[2 * s + 1];
    }
    return;
  }
  for (int64_t s = 0; s < kTileSlots; ++s) {
    first[s] = s < count ? pairs[2 * s] : 0.0f;
    second[s] = s < count ? pairs[2 * s + 1] : 0.0f;
  }
}

// The per-slot numbers of a tile, which all rows share. Slots from `count` on count as masked.
inline void read_slots(const AttentionTask& task, const IntScratch& at, int64_t begin, int64_t count) {
  split_pairs(task.k.scale_and_min + 2 * begin, count, at.key_scales, at.key_minima);
  split_pairs(task.v.scale_and_min + 2 * begin, count, at.inverses, at.ratios);
  for (int64_t s = 0; s < kTileSlots; s += kLanes) {
    const F scale = load(at.inverses + s), low = load(at.ratios + s);
    // Constant rows (scale 0) get a scale that suits their minimum.
    const F other = vmax(abs_bits_clear(low) * set1(0x1p-20f), set1(kSmallestWeightScale));
    const F used = scale > set1(kSmallestWeightScale) ? scale : other;
    const F inverse = set1(1.0f) / used, ratio = low * inverse;
    // NaN in the logarithm reaches only the rows that see the slot; zero times NaN would reach all of them.
    const F difference = (scale - scale) + (low - low);
    const auto broken = !(difference == set1(0.0f));
    store(at.logs + s, broken ? set1(__builtin_nanf("")) : log2_vector(used));
    store(at.inverses + s, broken ? set1(1.0f) : inverse);
    store(at.ratios + s, broken ? set1(0.0f) : ratio);
  }
  for (int64_t s = count; s < kTileSlots; ++s) at.logs[s] = -__builtin_inff();
}

// A vector of a row's scores, from integer sums: to the base 2, with the logarithms of the values' scales added.
inline F finish_scores(const IntScratch& at, float softcap, int64_t row, int64_t col, int64_t count, F sums) {
  const F raw = fma(sums, load(at.key_scales + col), set1(at.query_sums[row]) * load(at.key_minima + col));
  F score = raw * set1(at.query_factors[row]);
  if (softcap != 0.0f) score = set1(softcap * kLog2OfE) * tanh_vector(score);
  score = score + load(at.logs + col);
  const float* const mask = at.masks[row];
  if (mask == nullptr || col >= count) return score;
  const F m = col + kLanes <= count ? load(mask + col) : load_n(mask + col, count - col);
  const F lowest = set1(-__builtin_inff());
  return m == lowest ? lowest
                     : fma(m, set1(kLog2OfE), score);  // No addition here: the score of a masked slot may be NaN.
}

// How the integer products are computed. scores() multiplies all queries with a tile's keys, and values() all weights
// of a tile with its values: use(row, column, sums) gets kLanes sums as floats, the columns of a row in order.
struct WordProducts {
  // Called once the queries are quantized.
  void prepare(const AttentionTask&, const IntScratch&) const {}

  template <typename Use>
  void scores(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile, Use use) const {
    const int64_t pairs = key_pairs(task.dim), next_tile = kTileSlots * task.dim;
    const auto bytes = [next_tile, &tile](int64_t k, int64_t col) {
      const uint8_t* const p = tile.keys[col / kKeySlots] + (k * kKeySlots + col % kKeySlots) * 2;
      __builtin_prefetch(p + next_tile);
      return load_bytes(p);
    };
    const WordProduct product{at.queries, at.padded_dim, pairs, kTileSlots};
    if (at.rows <= kWordRows) {
      multiply_words(at.rows, product, bytes, use);
      return;
    }
    for (int64_t k = 0; k < pairs; ++k) {
      for (int64_t col = 0; col < kTileSlots; col += kLanes) {
        store_words(at.keys + 2 * (k * kTileSlots + col), bytes(k, col));
      }
    }
    multiply_words(
        at.rows, product,
        [keys = at.keys](int64_t k, int64_t col) { return load_words(keys + 2 * (k * kTileSlots + col)); }, use);
  }

  template <typename Use>
  void values(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile, int64_t count,
              Use use) const {
    const int64_t dim = task.dim, padded = at.padded_dim, pairs = (count + 1) / 2;
    const auto bytes = [dim, &tile](int64_t j, int64_t col) {
      const uint8_t* const p = tile.values[j] + 2 * col;
      __builtin_prefetch(p + kTileSlots * dim);
      return load_bytes(p);
    };
    const WordProduct product{at.weights, kTileSlots, pairs, padded};
    if (at.rows <= kWordRows && dim == padded) {
      multiply_words(at.rows, product, bytes, use);
      return;
    }
    for (int64_t j = 0; j < pairs; ++j) {
      int16_t* const row = at.values + j * 2 * padded;
      int64_t col = 0;
      for (; col + kLanes <= dim; col += kLanes) store_words(row + 2 * col, bytes(j, col));
      for (int64_t i = 2 * col; i < 2 * padded; ++i) row[i] = i < 2 * dim ? tile.values[j][i] : 0;
    }
    multiply_words(
        at.rows, product,
        [values = at.values, padded](int64_t j, int64_t col) { return load_words(values + 2 * (j * padded + col)); },
        use);
  }
};

template <typename Products>
inline void find_scores(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile,
                        int64_t count, const Products& products) {
  products.scores(task, at, tile, [at, count, softcap = task.softcap](int64_t row, int64_t col, F sums) {
    const F score = finish_scores(at, softcap, row, col, count, sums);
    float* const largest = at.largest + row * kLanes;
    store(largest, col == 0 ? score : vmax(score, load(largest)));
    store(at.scores + row * kTileSlots + col, score);
  });
}

// The largest score of each row, and the factors that bring older sums and the tile's to a common base.
inline void find_bases(const IntScratch& at) {
  const F lowest = set1(-__builtin_inff());
  for (int64_t row = 0; row < at.rows; ++row) {
    // If the first score is NaN, the result is NaN anyway.
    const float top = hmax(vmax(load(at.largest + row * kLanes), lowest));
    at.bases[row] = top;
  }
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    const F tile = load(at.bases + row), before = load(at.maxima + row);
    const F next = vmax(tile, before);
    // While nothing is visible the maximum is -infinity; 0 instead gives weights of 2^-infinity = 0.
    const F base = next == lowest ? set1(0.0f) : next;
    store(at.old_factors + row, exp2_of_negative(before - base));
    store(at.new_factors + row, exp2_of_negative(tile - base));
    store(at.maxima + row, next);
    store(at.bases + row, tile == lowest ? set1(0.0f) : tile);
  }
}

inline void quantize_weights(const IntScratch& at, int64_t row) {
  const float* const scores = at.scores + row * kTileSlots;
  F sum = set1(0.0f), offset = set1(0.0f);
  TANDEM_UNROLL for (int64_t s = 0; s < kTileSlots; s += kLanes) {
    const F weight = exp2_of_negative(load(scores + s) - set1(at.bases[row]));
    sum = fma(weight, load(at.inverses + s), sum);
    offset = fma(weight, load(at.ratios + s), offset);
    store_low_words(at.weights + row * kTileSlots + s, (U)fma(weight, set1(kInt16Top), set1(kRoundMagic)));
  }
  const F older = set1(at.old_factors[row]), newer = set1(at.new_factors[row]);
  float* const sums = at.sums + row * kLanes;
  float* const offsets = at.offsets + row * kLanes;
  store(sums, fma(load(sums), older, sum * newer));
  store(offsets, fma(load(offsets), older, offset * newer));
}

template <typename Products>
inline void add_values(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile,
                       int64_t count, const Products& products) {
  products.values(task, at, tile, count, [at](int64_t row, int64_t col, F sums) {
    float* const outputs = at.outputs + row * at.padded_dim + col;
    store(outputs, fma(sums, set1(at.new_factors[row]), load(outputs) * set1(at.old_factors[row])));
  });
}

template <typename Products>
inline void int_attention_with(const AttentionTask& task, const IntScratch& at, const Products& products) {
  const int64_t padded = at.padded_dim;
  for (int64_t token = 0; token < task.tokens; ++token) {
    // The query rows of a prompt lie far apart: prefetch the next one.
    const float* const next = task.q + (token + 1 < task.tokens ? token + 1 : token) * task.q_stride;
    for (int64_t d = 0; d < task.group * task.dim; d += 16) __builtin_prefetch(next + d);
    for (int64_t g = 0; g < task.group; ++g) {
      quantize_query(task.q + token * task.q_stride + g * task.dim, task.dim, token * task.group + g, task, at);
    }
  }
  products.prepare(task, at);
  for (int64_t i = 0; i < at.rows * padded; i += kLanes) store(at.outputs + i, set1(0.0f));
  for (int64_t i = 0; i < at.rows * kLanes; i += kLanes) {
    store(at.sums + i, set1(0.0f));
    store(at.offsets + i, set1(0.0f));
  }
  for (int64_t row = 0; row < at.rows; row += kLanes) {
    store(at.maxima + row, set1(-__builtin_inff()));
    // Rows are processed in whole vectors: initialize the lanes past the last row.
    store(at.bases + row, set1(0.0f));
  }
  each_tile(task, [&](int64_t begin, int64_t count) {
    const auto tile = find_tile<DType::kU8>(task, begin, at.partial_keys, at.partial_values);
    read_slots(task, at, begin, count);
    for (int64_t row = 0; row < at.rows; ++row) at.masks[row] = mask_of(task, row / task.group, begin, count);
    find_scores(task, at, tile, count, products);
    find_bases(at);
    for (int64_t row = 0; row < at.rows; ++row) quantize_weights(at, row);
    add_values(task, at, tile, count, products);
  });
  for (int64_t row = 0; row < at.rows; ++row) {
    float* out = task.out + row / task.group * task.out_stride + row % task.group * task.dim;
    const float sum = hsum(load(at.sums + row * kLanes)), offset = hsum(load(at.offsets + row * kLanes));
    const F inverse = set1(sum == 0.0f ? 0.0f : 1.0f / sum);
    for (int64_t d = 0; d < task.dim; d += kLanes) {
      const F total = fma(load(at.outputs + row * padded + d), set1(1.0f / kInt16Top), set1(offset));
      // Adding 0 turns -0 into 0, so that skipped tiles and tiles of zero weights give the same bits.
      const F mixed = total * inverse + set1(0.0f);
      task.dim - d >= kLanes ? store(out + d, mixed) : store_n(out + d, mixed, task.dim - d);
    }
  }
}

inline void int_attention(const AttentionTask& task) {
  int_attention_with(task, IntScratch(task.scratch, task.tokens, task.group, task.dim), WordProducts());
}

}  // namespace
}  // namespace tandem::cpu
