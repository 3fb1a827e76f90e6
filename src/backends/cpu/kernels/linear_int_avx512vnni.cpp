// Integer linear layers for AVX-512 VNNI: vpdpbusd multiplies four unsigned bytes with four signed ones and adds the
// sum to an int32. The weights are the unsigned side, so that activations need no preparation:
//   few tokens, kLpbq4    the nibbles as stored, q + 8; a block's sum starts at -8 times the sum of its activations,
//   fits
//                         an int16, and vpdpwssd multiplies it with the multiplier and adds it to the row's sum.
//   otherwise             int8 weights + 128, with -128 times the sum of all activations added; with many tokens a few
//                         panels at a time are expanded to such bytes, and the activations are in tile order.
// All of it is exact, so both ways agree to the bit.
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
// Up to this many tokens, weights are read as stored, kLpbq4 as nibbles. With 8 tokens bytes were faster (323 against
// 265 GOPS), with 4 not tried: the exact crossover has not been measured.
constexpr int64_t kFewTokens = 6;
// Decoding is bound by memory: 4 panels at a time, with prefetching, reach 13 GB/s where one alone reached 9.
constexpr int kNibblePanels = 4;
constexpr int64_t kPrefetchBytes = 2048;
// How far ahead to prefetch from an offset in one of P panels: in the panel itself or, near its end, in the panel that
// is read after it.
template <int P>
inline int64_t prefetch_distance(int64_t offset, int64_t panel_bytes) {
  return offset + kPrefetchBytes < panel_bytes ? kPrefetchBytes : kPrefetchBytes + (P - 1) * panel_bytes;
}
constexpr int64_t kSubBlock = 32;  // The longest run of columns whose sum of q * activation fits an int16.

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
  const int8_t* x = task.quantized.values + token * task.quantized.stride;
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
    const int64_t ahead = prefetch_distance<P>(b * G * 64, panel_bytes);
    TANDEM_UNROLL for (int g = 0; g < G; ++g) {
      TANDEM_UNROLL for (int p = 0; p < P; ++p) {
        const uint8_t* at = data + p * panel_bytes + g * 64;
        _mm_prefetch(reinterpret_cast<const char*>(at + ahead), _MM_HINT_T0);
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
  SumsWriter<P>(task, panel).write(token, total);
}

template <int G>
void linear_nibbles(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols);
  const int64_t sub_blocks = cols / (8 * G);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    const int8_t* x = task.quantized.values + token * task.quantized.stride;
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

// The layout of a tile's activations: [cols / 4][T] groups of four, or rows at a stride.
enum Inputs { kArranged, kRows };

// T tokens by P panels of bytes, to which 128 is added first unless they have it already (kPlus128).
template <int T, int P, Inputs I, Expanded E>
void byte_tile(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, const int8_t* x,
               const int32_t* sums) {
  const int64_t cols = padded(task.weight->cols);
  const int64_t panel_bytes = kPanelRows * cols, stride = task.quantized.stride;
  const __m512i sign = _mm512_set1_epi8(-128);
  __m512i sum[T][P];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int p = 0; p < P; ++p) sum[t][p] = _mm512_set1_epi32(-128 * sums[t]);
  }
  for (int64_t col = 0; col < cols; col += 4) {
    __m512i w[P];
    TANDEM_UNROLL for (int p = 0; p < P; ++p) {
      const uint8_t* at = weights + p * panel_bytes + col * kPanelRows;
      if constexpr (I == kRows) {
        const int64_t ahead = prefetch_distance<P>(col * kPanelRows, panel_bytes);
        _mm_prefetch(reinterpret_cast<const char*>(at + ahead), _MM_HINT_T0);
      }
      w[p] = _mm512_loadu_si512(at);
      if constexpr (E == kSigned) w[p] = _mm512_xor_si512(w[p], sign);
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      const __m512i input = broadcast4(I == kArranged ? x + col * T + 4 * t : x + t * stride + col);
      TANDEM_UNROLL for (int p = 0; p < P; ++p) sum[t][p] = dot4(sum[t][p], w[p], input);
    }
  }
  SumsWriter<P>(task, panel).write(token, sum);
}

// `tokens` <= T tokens, with a tile of exactly that size.
template <int T, int P, Inputs I, Expanded E>
void byte_tokens(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, int64_t tokens,
                 const int8_t* x, const int32_t* sums) {
  if constexpr (T > 0) {
    if (tokens == T) {
      byte_tile<T, P, I, E>(task, weights, panel, token, x, sums);
    } else {
      byte_tokens<T - 1, P, I, E>(task, weights, panel, token, tokens, x, sums);
    }
  }
}

// ---- Few tokens of kI8 weights: read once, as stored ----

void linear_few_i8(const LinearTask& task) {
  const int64_t panel_bytes = kPanelRows * padded(task.weight->cols);
  int32_t sums[kFewTokens];
  for (int64_t token = 0; token < task.tokens; ++token) {
    const int8_t* x = task.quantized.values + token * task.quantized.stride;
    sum_runs(x, padded(task.weight->cols), padded(task.weight->cols), 1, sums + token);
  }
  const uint8_t* weights = task.weight->data;
  const int8_t* x = task.quantized.values;
  int64_t panel = task.panel_begin;
  if (task.tokens == 1) {
    for (; panel + kNibblePanels <= task.panel_end; panel += kNibblePanels) {
      byte_tile<1, kNibblePanels, kRows, kSigned>(task, weights + panel * panel_bytes, panel, 0, x, sums);
    }
  }
  for (; panel < task.panel_end; ++panel) {
    byte_tokens<kFewTokens, 1, kRows, kSigned>(task, weights + panel * panel_bytes, panel, 0, task.tokens, x, sums);
  }
}

// ---- Many tokens: arranged in groups of a tile's height, each preceded by the sums of its tokens ----

constexpr int64_t kSumsBytes = 64;
static_assert(kGemmTokens * sizeof(int32_t) <= kSumsBytes);

int64_t group_bytes(int64_t cols) { return kSumsBytes + kGemmTokens * cols; }

void arrange_group(const int8_t* quantized, int64_t stride, int64_t tokens, int64_t cols, uint8_t* out) {
  auto* sums = reinterpret_cast<int32_t*>(out);
  for (int64_t t = 0; t < tokens; ++t) sum_runs(quantized + t * stride, cols, cols, 1, sums + t);
  // Four int8 values are moved as one float.
  interleave_rows(reinterpret_cast<const float*>(quantized), stride / 4, tokens, cols / 4,
                  reinterpret_cast<float*>(out + kSumsBytes));
}

static_assert(kGemmTokens % 2 == 0 && kGemmTokens <= kMaxLayoutGroup);
constexpr QuantizedLayout kTileLayout = {kGemmTokens, group_bytes, arrange_group};

constexpr int64_t kExpandedBytes = 256 << 10;  // Of the panels that are expanded at a time.

void add_128(const uint8_t* from, int64_t count, uint8_t* to) {
  const __m512i sign = _mm512_set1_epi8(-128);
  for (int64_t i = 0; i < count; i += 64) {
    _mm512_storeu_si512(to + i, _mm512_xor_si512(_mm512_loadu_si512(from + i), sign));
  }
}

void linear_many(const LinearTask& task) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols), panel_bytes = kPanelRows * cols,
                most = panels_at_once(cols, kExpandedBytes, kGemmPanels);
  uint8_t* const bytes = task.scratch;
  for (int64_t begin = task.panel_begin; begin < task.panel_end; begin += most) {
    const int64_t panels = task.panel_end - begin < most ? task.panel_end - begin : most;
    for (int64_t p = 0; p < panels; ++p) {
      if (w.format == WeightFormat::kLpbq4) {
        expand_panel<kPlus128>(w, begin + p, bytes + p * panel_bytes);
      } else {
        add_128(w.data + (begin + p) * panel_bytes, panel_bytes, bytes + p * panel_bytes);
      }
    }
    const uint8_t* group = task.quantized.arranged;
    const int64_t tiles = (panels + kGemmPanels - 1) / kGemmPanels * ((task.tokens + kGemmTokens - 1) / kGemmTokens);
    NextPanels next(w, begin + panels, panels, tiles);
    for (int64_t token = 0; token < task.tokens; token += kGemmTokens, group += group_bytes(cols)) {
      const int64_t tokens = task.tokens - token < kGemmTokens ? task.tokens - token : kGemmTokens;
      const auto* sums = reinterpret_cast<const int32_t*>(group);
      const auto* x = reinterpret_cast<const int8_t*>(group + kSumsBytes);
      int64_t p = 0;
      for (; p + kGemmPanels <= panels; p += kGemmPanels) {
        next.fetch_part();
        byte_tokens<kGemmTokens, kGemmPanels, kArranged, kPlus128>(task, bytes + p * panel_bytes, begin + p, token,
                                                                   tokens, x, sums);
      }
      for (; p < panels; ++p) {
        byte_tokens<kGemmTokens, 1, kArranged, kPlus128>(task, bytes + p * panel_bytes, begin + p, token, tokens, x,
                                                         sums);
      }
    }
  }
}

}  // namespace

int64_t multiply_int8_avx512vnni(int64_t rounds) {
  constexpr int kSums = 24;
  __m512i sum[kSums], x = _mm512_set1_epi8(3);
  for (__m512i& s : sum) s = _mm512_setzero_si512();
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+v"(x));  // To the compiler, a new operand each time.
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) sum[k] = dot4(sum[k], x, x);
  }
  for (__m512i& s : sum) asm volatile("" : : "v"(s));
  return rounds * kSums * 64 * 2;
}

const QuantizedLayout* quantized_layout_avx512vnni(int64_t tokens) {
  return tokens > kFewTokens ? &kTileLayout : nullptr;
}

uint64_t linear_int_scratch_avx512vnni(const PackedMatrix& weight, int64_t tokens) {
  const int64_t cols = padded(weight.cols);
  // A call may have fewer tokens than its plan.
  const int64_t few = (tokens < kFewTokens ? tokens : kFewTokens) * (cols / 16) * 4;
  const int64_t many = tokens > kFewTokens ? panels_at_once(cols, kExpandedBytes, kGemmPanels) * kPanelRows * cols : 0;
  return static_cast<uint64_t>(few > many ? few : many);
}

void linear_int_avx512vnni(const LinearTask& task) {
  if (task.tokens > kFewTokens) {
    linear_many(task);
  } else if (task.weight->format == WeightFormat::kI8) {
    linear_few_i8(task);
  } else if (task.weight->block == 16) {
    linear_nibbles<2>(task);
  } else {
    linear_nibbles<4>(task);
  }
}

}  // namespace tandem::cpu
