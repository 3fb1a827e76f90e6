// Integer linear layers for AVX-512 VNNI: vpdpbusd multiplies four unsigned bytes with four signed ones and adds the
// sum to an int32. The weights are the unsigned side, so that activations need no preparation:
//   few tokens, kLpbq4    the nibbles as they are, code + 8; a block's sum starts at -8 times the sum of its
//   activations,
//                         fits an int16, and vpdpwssd multiplies it with the multiplier and adds it to the row's sum.
//   otherwise             int8 weights + 128, with -128 times the sum of all activations added; kLpbq4 is expanded into
//                         such weights first, two panels at a time.
// All of it is exact, so the two ways agree to the bit.
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"
//
#include "backends/cpu/kernels/generic_math.h"
//
#include "backends/cpu/kernels/generic_interleave.h"
#include "backends/cpu/kernels/linear_int_avx512.h"

namespace tandem::cpu {
namespace {

// 24 accumulators, 2 weights and an activation in 32 registers.
constexpr int kGemmTokens = 12;
constexpr int kGemmPanels = 2;
// So many tokens are interleaved at a time, to stay in the second-level cache.
constexpr int64_t kBlockTokens = 144;
static_assert(kBlockTokens % kGemmTokens == 0);
// Up to so many tokens kLpbq4 runs on nibbles. With 8 tokens bytes were faster (323 against 265 GOPS), with 4 not
// tried: the exact crossing has not been measured.
constexpr int64_t kNibbleTokens = 6;
// Decoding waits for memory: 4 panels at a time, fetched ahead, reach 13 GB/s where one alone reached 9.
constexpr int kNibblePanels = 4;
constexpr int64_t kPrefetchBytes = 2048;
constexpr int64_t kSubBlock = 32;  // The longest run of columns whose sum of code * activation fits an int16.

inline __m512i broadcast4(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return _mm512_set1_epi32(word);
}

// sum + the four products of each lane. GCC 12 copies the accumulators of its intrinsic around and spills them.
inline __m512i dot4(__m512i sum, __m512i unsigned_bytes, __m512i signed_bytes) {
#if defined(__clang__)
  return _mm512_dpbusd_epi32(sum, unsigned_bytes, signed_bytes);
#else
  asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes));
  return sum;
#endif
}

// factor * (sum of activations) for each run of `run` columns (16, 32, or a multiple of 64).
void sum_runs(const int8_t* x, int64_t cols, int64_t run, int32_t factor, int32_t* out) {
  const __m512i ones = _mm512_set1_epi8(1);
  const __mmask16 half = run <= 32 ? 0x00ff : 0xffff;
  int32_t sum = 0;
  for (int64_t col = 0; col < cols; col += 64) {
    const __m512i fours = _mm512_dpbusd_epi32(_mm512_setzero_si512(), ones, _mm512_loadu_si512(x + col));
    if (run == 16) {
      for (int i = 0; i < 4; ++i) {
        *out++ = factor * _mm512_mask_reduce_add_epi32(static_cast<__mmask16>(0xf << (4 * i)), fours);
      }
    } else if (run == 32) {
      *out++ = factor * _mm512_mask_reduce_add_epi32(half, fours);
      *out++ = factor * _mm512_mask_reduce_add_epi32(static_cast<__mmask16>(~half), fours);
    } else {
      sum += _mm512_reduce_add_epi32(fours);
      if ((col + 64) % run == 0) {
        *out++ = factor * sum;
        sum = 0;
      }
    }
  }
}

// T tokens by P panels of nibbles; G groups of 8 columns to a sub-block.
template <int T, int P, int G>
void nibble_tile(const LinearTask& task, int64_t panel, int64_t token, const int32_t* corrections) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols);
  const int64_t sub_blocks = cols / (8 * G);
  const int shift = w.block > kSubBlock ? 1 : 0;  // A block of 64 is two sub-blocks with one multiplier.
  const int64_t panel_bytes = kPanelRows * cols / 2;
  const int64_t panel_multipliers = kPanelRows * (cols / w.block);
  const uint8_t* data = w.data + panel * panel_bytes;
  const uint8_t* multipliers = w.multipliers + panel * panel_multipliers;
  const int8_t* x = task.quantized.codes + token * task.quantized.stride;
  const int64_t stride = task.quantized.stride;
  const __m512i low = _mm512_set1_epi8(15);
  corrections += token * sub_blocks;
  __m512i total[T][P];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) total[t][p] = _mm512_setzero_si512();
  }
  for (int64_t b = 0; b < sub_blocks; ++b) {
    __m512i sum[T][P];
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int p = 0; p < P; ++p) sum[t][p] = _mm512_set1_epi32(corrections[t * sub_blocks + b]);
    }
    TANDEM_UNROLL for (int g = 0; g < G; ++g) {
      TANDEM_UNROLL for (int p = 0; p < P; ++p) {
        const uint8_t* at = data + p * panel_bytes + g * 64;
        _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchBytes), _MM_HINT_T0);
        const __m512i bytes = _mm512_loadu_si512(at);
        const __m512i first = _mm512_and_si512(bytes, low);
        const __m512i second = _mm512_and_si512(_mm512_srli_epi16(bytes, 4), low);
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          sum[t][p] = dot4(sum[t][p], first, broadcast4(x + t * stride + 8 * g));
          sum[t][p] = dot4(sum[t][p], second, broadcast4(x + t * stride + 8 * g + 4));
        }
      }
    }
    TANDEM_UNROLL for (int p = 0; p < P; ++p) {
      const uint8_t* block = multipliers + p * panel_multipliers + (b >> shift) * kPanelRows;
      const __m512i multiplier = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(block)));
      // The upper half of each multiplier is 0, so this takes the lower half of the sum only, with its sign.
      TANDEM_UNROLL for (int t = 0; t < T; ++t) total[t][p] = _mm512_dpwssd_epi32(total[t][p], sum[t][p], multiplier);
    }
    data += G * 64;
    x += 8 * G;
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) store_sums(task, panel + p, token + t, total[t][p]);
  }
}

template <int G>
void linear_nibbles(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols);
  const int64_t sub_blocks = cols / (8 * G);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    const int8_t* x = task.quantized.codes + token * task.quantized.stride;
    sum_runs(x, cols, 8 * G, -8, corrections + token * sub_blocks);
  }
  int64_t panel = task.panel_begin;
  if (task.tokens == 1) {
    for (; panel + kNibblePanels <= task.panel_end; panel += kNibblePanels) {
      nibble_tile<1, kNibblePanels, G>(task, panel, 0, corrections);
    }
  }
  for (; panel < task.panel_end; ++panel) {
    int64_t token = 0;
    for (; token + 4 <= task.tokens; token += 4) nibble_tile<4, 1, G>(task, panel, token, corrections);
    switch (task.tokens - token) {
      case 1: nibble_tile<1, 1, G>(task, panel, token, corrections); break;
      case 2: nibble_tile<2, 1, G>(task, panel, token, corrections); break;
      case 3: nibble_tile<3, 1, G>(task, panel, token, corrections); break;
      default: break;
    }
  }
}

// T tokens by P panels of bytes; Signed: int8 weights as stored, otherwise they have 128 added already. x: [cols /
// 4][T] groups of four activations.
template <int T, int P, bool Signed>
void byte_tile(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, const int8_t* x,
               const int32_t* corrections) {
  const int64_t cols = padded(task.weight->cols);
  const int64_t panel_bytes = kPanelRows * cols;
  const __m512i sign = _mm512_set1_epi8(-128);
  __m512i sum[T][P];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) sum[t][p] = _mm512_set1_epi32(corrections[token + t]);
  }
  for (int64_t col = 0; col < cols; col += 4) {
    __m512i w[P];
    TANDEM_UNROLL for (int p = 0; p < P; ++p) {
      w[p] = _mm512_loadu_si512(weights + p * panel_bytes + col * kPanelRows);
      if constexpr (Signed) w[p] = _mm512_xor_si512(w[p], sign);
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      const __m512i input = broadcast4(x + col * T + 4 * t);
      TANDEM_UNROLL for (int p = 0; p < P; ++p) sum[t][p] = dot4(sum[t][p], w[p], input);
    }
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) store_sums(task, panel + p, token + t, sum[t][p]);
  }
}

// The last `tokens` < T tokens, with the tile of just that many.
template <int T, int P, bool Signed>
void byte_tail(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, int64_t tokens,
               const int8_t* x, const int32_t* corrections) {
  if constexpr (T > 1) {
    if (tokens == T - 1) {
      byte_tile<T - 1, P, Signed>(task, weights, panel, token, x, corrections);
    } else {
      byte_tail<T - 1, P, Signed>(task, weights, panel, token, tokens, x, corrections);
    }
  }
}

// A block of tokens [begin, end), interleaved in x tile by tile.
struct TokenBlock {
  int64_t begin, end;
  const int8_t* x;
  const int32_t* corrections;  // Of all tokens.
  uint8_t* expanded;           // Room for kGemmPanels panels.
};

template <int P, bool Signed>
void byte_panels(const LinearTask& task, const uint8_t* weights, int64_t panel, const TokenBlock& block) {
  const int64_t cols = padded(task.weight->cols);
  const int8_t* x = block.x;
  int64_t token = block.begin;
  for (; token + kGemmTokens <= block.end; token += kGemmTokens, x += kGemmTokens * cols) {
    byte_tile<kGemmTokens, P, Signed>(task, weights, panel, token, x, block.corrections);
  }
  if (token < block.end) {
    byte_tail<kGemmTokens, P, Signed>(task, weights, panel, token, block.end - token, x, block.corrections);
  }
}

template <int P>
void linear_panels(const LinearTask& task, int64_t panel, const TokenBlock& block) {
  const PackedMatrix& w = *task.weight;
  const int64_t panel_bytes = kPanelRows * padded(w.cols);
  if (w.format == WeightFormat::kI8) {
    byte_panels<P, true>(task, w.data + panel * panel_bytes, panel, block);
    return;
  }
  for (int p = 0; p < P; ++p) expand_panel<kPlus128>(w, panel + p, block.expanded + p * panel_bytes);
  byte_panels<P, false>(task, block.expanded, panel, block);
}

// Where the parts of the scratch of the byte kernels begin.
struct ByteScratch {
  int64_t x, expanded, end;
  ByteScratch(const PackedMatrix& w, int64_t tokens) {
    const int64_t cols = padded(w.cols);
    x = round_up_64(tokens * 4);
    expanded = x + round_up_64((tokens < kBlockTokens ? tokens : kBlockTokens) * cols + 4 * kInterleaveSlack);
    end = expanded + (w.format == WeightFormat::kLpbq4 ? kGemmPanels * kPanelRows * cols : 0);
  }
};

void linear_bytes(const LinearTask& task) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols);
  const ByteScratch offsets(w, task.tokens);
  const QuantizedRows& in = task.quantized;
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  uint8_t* x = task.scratch + offsets.x;
  for (int64_t token = 0; token < task.tokens; ++token) {
    sum_runs(in.codes + token * in.stride, cols, cols, -128, corrections + token);
  }
  for (int64_t begin = 0; begin < task.tokens; begin += kBlockTokens) {
    const int64_t end = begin + kBlockTokens < task.tokens ? begin + kBlockTokens : task.tokens;
    for (int64_t token = begin; token < end; token += kGemmTokens) {
      const int64_t rows = end - token < kGemmTokens ? end - token : kGemmTokens;
      // Only moved: four codes travel as one float.
      interleave_rows(reinterpret_cast<const float*>(in.codes + token * in.stride), in.stride / 4, rows, cols / 4,
                      reinterpret_cast<float*>(x + (token - begin) * cols));
    }
    const TokenBlock block{begin, end, reinterpret_cast<const int8_t*>(x), corrections,
                           task.scratch + offsets.expanded};
    int64_t panel = task.panel_begin;
    for (; panel + kGemmPanels <= task.panel_end; panel += kGemmPanels) linear_panels<kGemmPanels>(task, panel, block);
    for (; panel < task.panel_end; ++panel) linear_panels<1>(task, panel, block);
  }
}

}  // namespace

int64_t multiply_int8_avx512vnni(int64_t rounds) {
  constexpr int kSums = 24;
  __m512i sum[kSums], x = _mm512_set1_epi8(3);
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(x));  // Another operand each time, for all that the compiler knows.
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) sum[k] = dot4(sum[k], x, x);
  }
  for (__m512i& s : sum) asm volatile("" : : "v"(s));
  return rounds * kSums * 64 * 2;
}

uint64_t linear_int_scratch_avx512vnni(const PackedMatrix& weight, int64_t tokens) {
  if (weight.format == WeightFormat::kLpbq4 && tokens <= kNibbleTokens) {
    return static_cast<uint64_t>(tokens * (padded(weight.cols) / 16) * 4);
  }
  return static_cast<uint64_t>(ByteScratch(weight, tokens).end);
}

void linear_int_avx512vnni(const LinearTask& task) {
  if (task.weight->format != WeightFormat::kLpbq4 || task.tokens > kNibbleTokens) {
    linear_bytes(task);
  } else if (task.weight->block == 16) {
    linear_nibbles<2>(task);
  } else {
    linear_nibbles<4>(task);
  }
}

}  // namespace tandem::cpu
