// Integer linear layers for AVX-VNNI (CPUs with vpdpbusd and no AVX-512: Alder Lake and later), as in
// linear_int_avx512vnni.cpp with registers of half the size:
//   few tokens, kLpbq4    the nibbles as stored, q + 8; a block's sum starts at -8 times the sum of its activations,
//   fits
//                         an int16, and vpdpwssd multiplies it with the multiplier and adds it to the row's sum.
//   otherwise             int8 weights + 128, with -128 times the sum of all activations added; kLpbq4 is expanded to
//                         such weights first, a panel at a time.
#include "backends/cpu/kernels/linear_int_avx2.h"

namespace tandem::cpu {
namespace {

// 12 accumulators, 2 weights and an activation in 16 registers.
constexpr int kTileTokens = 6;
// Beyond this many tokens, expanding a panel pays off.
constexpr int64_t kNibbleTokens = 6;
constexpr int64_t kPrefetchBytes = 2048;
constexpr int64_t kSubBlock = 32;  // The longest run of columns whose sum of q * activation fits an int16.

// sum + the four products of each lane. GCC 12 copies the accumulators of its intrinsic around and spills them.
inline __m256i dot4(__m256i sum, __m256i unsigned_bytes, __m256i signed_bytes) {
#if defined(__clang__)
  return _mm256_dpbusd_avx_epi32(sum, unsigned_bytes, signed_bytes);
#else
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum) : "x"(unsigned_bytes), "x"(signed_bytes));
  return sum;
#endif
}

inline int32_t sum_of(__m128i v) {
  v = _mm_add_epi32(v, _mm_unpackhi_epi64(v, v));
  return _mm_cvtsi128_si32(_mm_add_epi32(v, _mm_shuffle_epi32(v, 1)));
}

// factor * (sum of activations) for each run of `run` columns (16 or a multiple of 32).
void sum_runs(const int8_t* x, int64_t cols, int64_t run, int32_t factor, int32_t* out) {
  const __m256i ones = _mm256_set1_epi8(1);
  const int64_t step = run == 16 ? 32 : run;
  for (int64_t begin = 0; begin < cols; begin += step) {
    __m256i sums = _mm256_setzero_si256();
    for (int64_t col = begin; col < begin + step; col += 32) {
      sums = dot4(sums, ones, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + col)));
    }
    const __m128i first = _mm256_castsi256_si128(sums), second = _mm256_extracti128_si256(sums, 1);
    if (run == 16) {
      *out++ = factor * sum_of(first);
      *out++ = factor * sum_of(second);
    } else {
      *out++ = factor * sum_of(_mm_add_epi32(first, second));
    }
  }
}

// T tokens by one panel of nibbles; G groups of 8 columns to a sub-block.
template <int T, int G>
void nibble_tile(const LinearTask& task, int64_t panel, int64_t token, const int32_t* corrections) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols), sub_blocks = cols / (8 * G), stride = task.quantized.stride;
  const int shift = w.block > kSubBlock ? 1 : 0;  // A block of 64 is two sub-blocks with one multiplier.
  const uint8_t* data = w.data + panel * kPanelRows * cols / 2;
  const uint8_t* multipliers = w.multipliers + panel * kPanelRows * (cols / w.block);
  const int8_t* x = task.quantized.values + token * stride;
  const __m256i low = _mm256_set1_epi8(15);
  corrections += token * sub_blocks;
  __m256i total[T][2];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) total[t][0] = total[t][1] = _mm256_setzero_si256();
  for (int64_t b = 0; b < sub_blocks; ++b, data += G * 64, x += 8 * G) {
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
      __m256i sum[T];
      TANDEM_UNROLL for (int t = 0; t < T; ++t) sum[t] = _mm256_set1_epi32(corrections[t * sub_blocks + b]);
      TANDEM_UNROLL for (int g = 0; g < G; ++g) {
        const uint8_t* at = data + g * 64 + h * 32;
        if (h == 0) _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchBytes), _MM_HINT_T0);
        const __m256i bytes = load_bytes(at);
        const __m256i first = _mm256_and_si256(bytes, low);
        const __m256i second = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          sum[t] = dot4(sum[t], first, broadcast4(x + t * stride + 8 * g));
          sum[t] = dot4(sum[t], second, broadcast4(x + t * stride + 8 * g + 4));
        }
      }
      const uint8_t* block = multipliers + (b >> shift) * kPanelRows + h * 8;
      const __m256i multiplier = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block)));
      // The upper half of each multiplier is 0, so this takes the lower half of the sum only, with its sign.
      TANDEM_UNROLL for (int t = 0; t < T; ++t) {
        total[t][h] = _mm256_dpwssd_avx_epi32(total[t][h], sum[t], multiplier);
      }
    }
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) store_sums(task, panel * kPanelRows + h * 8, token + t, total[t][h]);
  }
}

template <int G>
void linear_nibbles(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols), sub_blocks = cols / (8 * G);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    sum_runs(task.quantized.values + token * task.quantized.stride, cols, 8 * G, -8, corrections + token * sub_blocks);
  }
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    int64_t token = 0;
    for (; token + 2 <= task.tokens; token += 2) nibble_tile<2, G>(task, panel, token, corrections);
    if (token < task.tokens) nibble_tile<1, G>(task, panel, token, corrections);
  }
}

// Expands one panel of nibbles to bytes of multiplier * q + 128, laid out like a kI8 panel (linear_int_avx512.h).
void expand_panel(const PackedMatrix& w, int64_t panel, uint8_t* out) {
  const int64_t cols = padded(w.cols), groups = w.block / 8;
  const uint8_t* data = w.data + panel * kPanelRows * cols / 2;
  const uint8_t* multipliers = w.multipliers + panel * kPanelRows * (cols / w.block);
  const __m256i low = _mm256_set1_epi8(15);
  for (int64_t col = 0; col < cols; col += w.block, multipliers += kPanelRows) {
    __m256i m16[2], offset[2];
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
      const __m256i m32 = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(multipliers + h * 8)));
      m16[h] = _mm256_or_si256(m32, _mm256_slli_epi32(m32, 16));
      const __m256i m8 = _mm256_or_si256(m16[h], _mm256_slli_epi16(m16[h], 8));
      offset[h] = _mm256_sub_epi8(_mm256_set1_epi8(-128), _mm256_slli_epi16(m8, 3));
    }
    for (int64_t g = 0; g < groups; ++g, data += 64, out += 128) {
      TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
        const __m256i bytes = load_bytes(data + h * 32);
        const __m256i first = _mm256_and_si256(bytes, low);
        const __m256i second = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
        auto* const to = reinterpret_cast<__m256i*>(out + h * 32);
        _mm256_storeu_si256(to, _mm256_add_epi8(_mm256_mullo_epi16(first, m16[h]), offset[h]));
        _mm256_storeu_si256(to + 2, _mm256_add_epi8(_mm256_mullo_epi16(second, m16[h]), offset[h]));
      }
    }
  }
}

// T tokens by one panel of bytes. `sign`: the bits to flip to add 128 to them.
template <int T>
void byte_tile(const LinearTask& task, const uint8_t* weights, __m256i sign, int64_t panel, int64_t token,
               const int32_t* corrections) {
  const int64_t cols = padded(task.weight->cols), stride = task.quantized.stride;
  const int8_t* x = task.quantized.values + token * stride;
  __m256i sum[T][2];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) sum[t][0] = sum[t][1] = _mm256_set1_epi32(corrections[token + t]);
  for (int64_t col = 0; col < cols; col += 4) {
    _mm_prefetch(reinterpret_cast<const char*>(weights + col * kPanelRows + kPrefetchBytes), _MM_HINT_T0);
    const __m256i first = _mm256_xor_si256(load_bytes(weights + col * kPanelRows), sign);
    const __m256i second = _mm256_xor_si256(load_bytes(weights + col * kPanelRows + 32), sign);
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      const __m256i input = broadcast4(x + t * stride + col);
      sum[t][0] = dot4(sum[t][0], first, input);
      sum[t][1] = dot4(sum[t][1], second, input);
    }
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) store_sums(task, panel * kPanelRows + h * 8, token + t, sum[t][h]);
  }
}

template <int T>
void last_tokens(const LinearTask& task, const uint8_t* weights, __m256i sign, int64_t panel, int64_t token,
                 const int32_t* corrections) {
  if constexpr (T > 0) {
    if (task.tokens - token == T) {
      byte_tile<T>(task, weights, sign, panel, token, corrections);
    } else {
      last_tokens<T - 1>(task, weights, sign, panel, token, corrections);
    }
  }
}

inline int64_t corrections_bytes(int64_t tokens) { return (tokens * 4 + 63) / 64 * 64; }

void linear_bytes(const LinearTask& task) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  uint8_t* expanded = task.scratch + corrections_bytes(task.tokens);
  for (int64_t token = 0; token < task.tokens; ++token) {
    sum_runs(task.quantized.values + token * task.quantized.stride, cols, cols, -128, corrections + token);
  }
  const bool is_i8 = w.format == WeightFormat::kI8;
  const __m256i sign = _mm256_set1_epi8(is_i8 ? -128 : 0);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    const uint8_t* weights = is_i8 ? w.data + panel * kPanelRows * cols : expanded;
    if (!is_i8) expand_panel(w, panel, expanded);
    int64_t token = 0;
    for (; token + kTileTokens <= task.tokens; token += kTileTokens) {
      byte_tile<kTileTokens>(task, weights, sign, panel, token, corrections);
    }
    last_tokens<kTileTokens - 1>(task, weights, sign, panel, token, corrections);
  }
}

}  // namespace

int64_t multiply_int8_avxvnni(int64_t rounds) {
  constexpr int kSums = 12;
  __m256i sum[kSums], x = _mm256_set1_epi8(3);
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(x));  // To the compiler, a new operand each time.
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) sum[k] = dot4(sum[k], x, x);
  }
  for (__m256i& s : sum) asm volatile("" : : "x"(s));
  return rounds * kSums * 32 * 2;
}

uint64_t linear_int_scratch_avxvnni(const PackedMatrix& weight, int64_t tokens) {
  const int64_t cols = padded(weight.cols);
  const int64_t nibbles = (tokens < kNibbleTokens ? tokens : kNibbleTokens) * (cols / 16) * 4;
  const int64_t bytes = corrections_bytes(tokens) + kPanelRows * cols;
  return static_cast<uint64_t>(nibbles > bytes ? nibbles : bytes);
}

void linear_int_avxvnni(const LinearTask& task) {
  if (task.weight->format != WeightFormat::kLpbq4 || task.tokens > kNibbleTokens) {
    linear_bytes(task);
  } else if (task.weight->block == 16) {
    linear_nibbles<2>(task);
  } else {
    linear_nibbles<4>(task);
  }
}

}  // namespace tandem::cpu
