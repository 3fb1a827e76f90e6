// Attention over one KV head, and the storing of its rows. Included after one simd_*.h, generic_math.h and
// generic_elementwise.h; internal linkage (see simd_portable.h).
//
// Slots are taken in tiles of kTileSlots at fixed places. Each tile's keys and values become floats once and serve all
// query rows of the task; the softmax is the online one (running maximum and sum). A row's arithmetic is the same
// whatever other rows are in the task, and a masked slot adds an exact zero, whatever the cache holds there.
#pragma once

namespace tandem::cpu {
namespace {

constexpr int64_t kTileSlots = kAttentionTile;

inline int64_t round_up_16(int64_t n) { return (n + 15) / 16 * 16; }

// c[r][..] = factor[r] * c[r][..] + sum over k of a[r][k] * b[k][..], R rows by V vectors; without factor c starts at
// 0.
template <int R, int V>
inline void matmul_tile(const float* a, int64_t a_stride, const float* b, int64_t b_stride, int64_t depth, float* c,
                        int64_t c_stride, const float* factor) {
  F sum[R][V] = {};
  if (factor != nullptr) {
    TANDEM_UNROLL for (int r = 0; r < R; ++r) {
      TANDEM_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = load(c + r * c_stride + v * kLanes) * set1(factor[r]);
    }
  }
  for (int64_t k = 0; k < depth; ++k) {
    F right[V];
    TANDEM_UNROLL for (int v = 0; v < V; ++v) right[v] = load(b + k * b_stride + v * kLanes);
    TANDEM_UNROLL for (int r = 0; r < R; ++r) {
      const F left = set1(a[r * a_stride + k]);
      TANDEM_UNROLL for (int v = 0; v < V; ++v) sum[r][v] = fma(left, right[v], sum[r][v]);
    }
  }
  TANDEM_UNROLL for (int r = 0; r < R; ++r) {
    TANDEM_UNROLL for (int v = 0; v < V; ++v) store(c + r * c_stride + v * kLanes, sum[r][v]);
  }
}

template <int R>
inline void matmul_rows(const float* a, int64_t a_stride, const float* b, int64_t cols, int64_t depth, float* c,
                        const float* factor) {
  int64_t col = 0;
  for (; col + kMatmulVectors * kLanes <= cols; col += kMatmulVectors * kLanes) {
    matmul_tile<R, kMatmulVectors>(a, a_stride, b + col, cols, depth, c + col, cols, factor);
  }
  for (; col < cols; col += kLanes) matmul_tile<R, 1>(a, a_stride, b + col, cols, depth, c + col, cols, factor);
}

template <int R>
inline void matmul_last_rows(int64_t rows, const float* a, int64_t a_stride, const float* b, int64_t cols,
                             int64_t depth, float* c, const float* factor) {
  if constexpr (R > 0) {
    if (rows == R) {
      matmul_rows<R>(a, a_stride, b, cols, depth, c, factor);
    } else {
      matmul_last_rows<R - 1>(rows, a, a_stride, b, cols, depth, c, factor);
    }
  }
}

// b and c are dense with `cols` columns, a multiple of 16.
inline void matmul(int64_t rows, const float* a, int64_t a_stride, const float* b, int64_t cols, int64_t depth,
                   float* c, const float* factor) {
  int64_t row = 0;
  for (; row + kMatmulRows <= rows; row += kMatmulRows) {
    matmul_rows<kMatmulRows>(a + row * a_stride, a_stride, b, cols, depth, c + row * cols,
                             factor == nullptr ? nullptr : factor + row);
  }
  matmul_last_rows<kMatmulRows - 1>(rows - row, a + row * a_stride, a_stride, b, cols, depth, c + row * cols,
                                    factor == nullptr ? nullptr : factor + row);
}

// Entries [d, d + n) of a stored row, n <= kLanes.
template <DType D>
inline F load_kv(const KvHead& head, int64_t dim, int64_t slot, int64_t d, int64_t n) {
  const int64_t at = slot * dim + d;
  if constexpr (D == DType::kF32) {
    const float* p = static_cast<const float*>(head.data) + at;
    return n == kLanes ? load(p) : load_n(p, n);
  } else if constexpr (D == DType::kF16) {
    const uint16_t* p = static_cast<const uint16_t*>(head.data) + at;
    return n == kLanes ? load_f16(p) : load_f16_n(p, n);
  } else {
    const uint8_t* p = static_cast<const uint8_t*>(head.data) + at;
    const F codes = n == kLanes ? load_u8(p) : load_u8_n(p, n);
    return fma(codes, set1(head.scale_and_min[2 * slot]), set1(head.scale_and_min[2 * slot + 1]));
  }
}

// Keys of `count` slots as [dim][kTileSlots]; zeros beyond.
template <DType D>
inline void load_keys(const KvHead& head, int64_t dim, int64_t begin, int64_t count, float* out) {
  for (int64_t d = 0; d < dim; d += kLanes) {
    const int64_t n = dim - d < kLanes ? dim - d : kLanes;
    for (int64_t s = 0; s < kTileSlots; s += kLanes) {
      F block[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) {
        block[i] = s + i < count ? load_kv<D>(head, dim, begin + s + i, d, n) : set1(0.0f);
      }
      transpose(block);
      for (int64_t i = 0; i < n; ++i) store(out + (d + i) * kTileSlots + s, block[i]);
    }
  }
}

// Values of `count` slots as [count][padded], zeros beyond dim. A slot with an infinity or NaN is written as zeros and
// noted in `odd`: times a weight of zero it would give NaN in rows that must not see it.
template <DType D>
inline uint64_t load_values(const KvHead& head, int64_t dim, int64_t padded, int64_t begin, int64_t count, float* out) {
  uint64_t odd = 0;
  for (int64_t s = 0; s < count; ++s) {
    float* row = out + s * padded;
    I largest = {};
    for (int64_t d = 0; d < dim; d += kLanes) {
      const int64_t n = dim - d < kLanes ? dim - d : kLanes;
      F v = load_kv<D>(head, dim, begin + s, d, n);
      if (n < kLanes) {
        for (int64_t i = n; i < kLanes; ++i) v[i] = 0.0f;  // The minimum of a u8 row was added there.
      }
      const I bits = (I)((U)v & 0x7fffffffu);
      largest = bits > largest ? bits : largest;
      store(row + d, v);
    }
    for (int64_t d = (dim + kLanes - 1) / kLanes * kLanes; d < padded; d += kLanes) store(row + d, set1(0.0f));
    int32_t bits = 0;
    for (int64_t lane = 0; lane < kLanes; ++lane) bits = largest[lane] > bits ? largest[lane] : bits;
    if (static_cast<uint32_t>(bits) >= kInfinityBits) {
      odd |= uint64_t{1} << s;
      for (int64_t d = 0; d < padded; d += kLanes) store(row + d, set1(0.0f));
    }
  }
  return odd;
}

struct AttentionScratch {
  int64_t rows, padded_dim;
  float *keys, *values, *queries, *scores, *outputs, *maxima, *sums, *factors;

  AttentionScratch(float* p, int64_t tokens, int64_t group, int64_t dim)
      : rows(tokens * group), padded_dim(round_up_16(dim)) {
    const int64_t padded_rows = round_up_16(rows);
    keys = p;
    values = keys + padded_dim * kTileSlots;
    queries = values + kTileSlots * padded_dim;
    scores = queries + rows * padded_dim;
    outputs = scores + rows * kTileSlots;
    maxima = outputs + rows * padded_dim;
    sums = maxima + padded_rows;
    factors = sums + padded_rows;
  }
};

uint64_t attention_scratch_floats(int64_t tokens, int64_t group, int64_t dim) {
  const int64_t rows = tokens * group, padded = round_up_16(dim);
  return static_cast<uint64_t>(2 * kTileSlots * padded + rows * (2 * padded + kTileSlots) + 3 * round_up_16(rows));
}

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

// Scores of one row and tile to weights exp(score - maximum); updates the row's maximum and sum, and leaves in `factor`
// what earlier tiles' sums have to be multiplied with.
inline void softmax_tile(const AttentionTask& task, const float* mask, int64_t count, float* scores, float& maximum,
                         float& sum, float& factor) {
  constexpr int64_t kVectors = kTileSlots / kLanes;
  const F lowest = set1(-__builtin_inff());
  F s[kVectors];
  F largest = set1(maximum);
  for (int64_t v = 0; v < kVectors; ++v) {
    F score = load(scores + v * kLanes) * set1(task.scale);
    if (task.softcap != 0.0f) score = set1(task.softcap) * tanh_vector(score / set1(task.softcap));
    const int64_t n = count - v * kLanes;
    if (n >= kLanes) {
      if (mask != nullptr) {
        const F m = load(mask + v * kLanes);
        score = m == lowest ? lowest : score + m;  // Not a sum: the score of a masked slot may be NaN.
      }
    } else {
      for (int64_t i = 0; i < kLanes; ++i) {
        if (i >= n || (mask != nullptr && mask[v * kLanes + i] == -__builtin_inff())) {
          score[i] = -__builtin_inff();
        } else if (mask != nullptr) {
          score[i] += mask[v * kLanes + i];
        }
      }
    }
    s[v] = score;
    largest = vmax(score, largest);
  }
  float next = maximum;
  for (int64_t lane = 0; lane < kLanes; ++lane) next = largest[lane] > next ? largest[lane] : next;
  // While nothing is visible the maximum is -infinity; 0 in its place gives weights of exp(-infinity) = 0.
  const float base = next == -__builtin_inff() ? 0.0f : next;
  factor = exp_vector(set1(maximum - base))[0];
  F total = set1(0.0f);
  for (int64_t v = 0; v < kVectors; ++v) {
    const F weight = exp_vector(s[v] - set1(base));
    total = total + weight;
    store(scores + v * kLanes, weight);
  }
  sum = sum * factor + hsum(total);
  maximum = next;
}

template <DType K, DType V>
void attention_typed(const AttentionTask& task) {
  AttentionScratch at(task.scratch, task.tokens, task.group, task.dim);
  const int64_t padded = at.padded_dim;
  for (int64_t row = 0; row < at.rows; ++row) {
    const float* q = task.q + row / task.group * task.q_stride + row % task.group * task.dim;
    __builtin_memcpy(at.queries + row * padded, q, static_cast<size_t>(task.dim) * sizeof(float));
    for (int64_t d = 0; d < padded; d += kLanes) store(at.outputs + row * padded + d, set1(0.0f));
    at.maxima[row] = -__builtin_inff();
    at.sums[row] = 0.0f;
  }
  const int64_t tiles = (task.slots + kTileSlots - 1) / kTileSlots;
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t begin = (task.first_tile + tile) % tiles * kTileSlots;
    const int64_t count = task.slots - begin < kTileSlots ? task.slots - begin : kTileSlots;
    if (!any_visible(task, begin, count)) continue;
    load_keys<K>(task.k, task.dim, begin, count, at.keys);
    matmul(at.rows, at.queries, padded, at.keys, kTileSlots, task.dim, at.scores, nullptr);
    for (int64_t row = 0; row < at.rows; ++row) {
      const float* mask = task.mask == nullptr ? nullptr : task.mask + row / task.group * task.mask_stride + begin;
      softmax_tile(task, mask, count, at.scores + row * kTileSlots, at.maxima[row], at.sums[row], at.factors[row]);
    }
    const uint64_t odd = load_values<V>(task.v, task.dim, padded, begin, count, at.values);
    matmul(at.rows, at.scores, kTileSlots, at.values, padded, count, at.outputs, at.factors);
    for (int64_t s = 0; odd != 0 && s < count; ++s) {
      if ((odd >> s & 1) == 0) continue;
      for (int64_t row = 0; row < at.rows; ++row) {
        if (is_masked(task, row / task.group, begin + s)) continue;
        const F weight = set1(at.scores[row * kTileSlots + s]);
        for (int64_t d = 0; d < task.dim; d += kLanes) {
          const int64_t n = task.dim - d < kLanes ? task.dim - d : kLanes;
          float* out = at.outputs + row * padded + d;
          store(out, fma(weight, load_kv<V>(task.v, task.dim, begin + s, d, n), load(out)));
        }
      }
    }
  }
  for (int64_t row = 0; row < at.rows; ++row) {
    float* out = task.out + row / task.group * task.out_stride + row % task.group * task.dim;
    const float inverse = at.sums[row] == 0.0f ? 0.0f : 1.0f / at.sums[row];
    // Adding 0 turns -0 into 0: skipped tiles and tiles of zero weights then give the same bits.
    map1(at.outputs + row * padded, task.dim, out, [inverse](F v) { return v * set1(inverse) + set1(0.0f); });
  }
}

template <DType K>
inline void attention_by_value_type(const AttentionTask& task) {
  switch (task.v.dtype) {
    case DType::kF16: attention_typed<K, DType::kF16>(task); return;
    case DType::kU8: attention_typed<K, DType::kU8>(task); return;
    default: attention_typed<K, DType::kF32>(task); return;
  }
}

void attention(const AttentionTask& task) {
  switch (task.k.dtype) {
    case DType::kF16: attention_by_value_type<DType::kF16>(task); return;
    case DType::kU8: attention_by_value_type<DType::kU8>(task); return;
    default: attention_by_value_type<DType::kF32>(task); return;
  }
}

inline void store_kv_u8(const float* row, int64_t dim, uint8_t* codes, float* scale_and_min) {
  float low = row[0], high = row[0];
  for (int64_t i = 1; i < dim; ++i) {
    low = row[i] < low ? row[i] : low;
    high = row[i] > high ? row[i] : high;
  }
  const float range = high - low;
  if (max_magnitude_bits(row, dim) >= kInfinityBits || range == __builtin_inff()) {
    scale_and_min[0] = scale_and_min[1] = __builtin_nanf("");  // Stays visible in the result.
    __builtin_memset(codes, 0, static_cast<size_t>(dim));
    return;
  }
  const float step = range / 255.0f;
  scale_and_min[0] = step;
  scale_and_min[1] = low;
  if (step == 0.0f) {
    __builtin_memset(codes, 0, static_cast<size_t>(dim));
    return;
  }
  // A step so small that it is denormal is imprecise: hence vmin.
  map_to_bytes(row, dim, codes, [=](F v) { return vmin((v - set1(low)) / set1(step), set1(255.0f)); });
}

void store_kv(const float* row, int64_t dim, int64_t slot, const KvHead& head) {
  switch (head.dtype) {
    case DType::kF16: convert_f16_from_f32(row, dim, static_cast<uint16_t*>(head.data) + slot * dim); return;
    case DType::kU8:
      store_kv_u8(row, dim, static_cast<uint8_t*>(head.data) + slot * dim, head.scale_and_min + 2 * slot);
      return;
    default:
      __builtin_memcpy(static_cast<float*>(head.data) + slot * dim, row, static_cast<size_t>(dim) * sizeof(float));
      return;
  }
}

}  // namespace
}  // namespace tandem::cpu
