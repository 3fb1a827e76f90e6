// LPBQ linear layers for AVX2, on nibbles for any number of tokens: nibble * activation is small enough that int16
// holds the sum of a sub-block of 32 columns (two int16 per row, 16 columns each, 16 * 8 * 127 = 16256), so that only
// one in eight multiply-adds has to be widened; expanding to int8 would widen every one. The sums start at -8 times the
// sum of the activations, because a nibble is q + 8. int16 additions may wrap in between; the final sum fits.
#include "backends/cpu/kernels/linear_int_avx2.h"

namespace tandem::cpu {
namespace {

constexpr int kTileTokens = 4;
constexpr int64_t kSubBlock = 32;
// Decoding is bound by memory: two panels at a time, with prefetching.
constexpr int kDecodeHalves = 4;
constexpr int64_t kPrefetchBytes = 2048;

// For each sub-block: -8 * (sum of the activations that share an int16), two int16 in one int32.
void make_corrections(const int8_t* x, int64_t cols, int64_t sub_block, int32_t* out) {
  const __m128i ones = _mm_set1_epi8(1);
  for (int64_t col = 0; col < cols; col += sub_block) {
    // 16-bit sums of neighbours, kept apart in even and odd lanes.
    __m128i sums = _mm_setzero_si128();
    for (int64_t i = 0; i < sub_block; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x + col + i));
      sums = _mm_add_epi16(sums, _mm_maddubs_epi16(ones, bytes));
    }
    sums = _mm_add_epi16(sums, _mm_unpackhi_epi64(sums, sums));
    sums = _mm_add_epi16(sums, _mm_shuffle_epi32(sums, 1));
    *out++ = _mm_cvtsi128_si32(_mm_sub_epi16(_mm_setzero_si128(), _mm_slli_epi16(sums, 3)));
  }
}

// T tokens by U halves of panels (8 rows each), the first of which is number `half`; G groups of 8 columns to a
// sub-block.
template <int T, int U, int G>
void nibble_tile(const LinearTask& task, int64_t half, int64_t token, const int32_t* corrections) {
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols);
  const int64_t sub_blocks = cols / (8 * G);
  const int shift = w.block > kSubBlock ? 1 : 0;  // A block of 64 is two sub-blocks with one multiplier.
  const uint8_t* data[U];
  const uint8_t* multipliers[U];
  TANDEM_UNROLL for (int u = 0; u < U; ++u) {
    const int64_t panel = (half + u) / 2, second = (half + u) % 2;
    data[u] = w.data + panel * kPanelRows * cols / 2 + second * 32;
    multipliers[u] = w.multipliers + panel * kPanelRows * (cols / w.block) + second * 8;
  }
  const int64_t stride = task.quantized.stride;
  const int8_t* x = task.quantized.values + token * stride;
  const __m256i low = _mm256_set1_epi8(15);
  corrections += token * sub_blocks;
  __m256i total[T][U];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int u = 0; u < U; ++u) total[t][u] = _mm256_setzero_si256();
  }
  for (int64_t b = 0; b < sub_blocks; ++b, x += 8 * G) {
    TANDEM_UNROLL for (int u = 0; u < U; ++u) {
      __m256i nibbles[2 * G];
      TANDEM_UNROLL for (int g = 0; g < G; ++g) {
        const uint8_t* at = data[u] + (b * G + g) * 64;
        if (u % 2 == 0) _mm_prefetch(reinterpret_cast<const char*>(at + kPrefetchBytes), _MM_HINT_T0);
        const __m256i bytes = load_bytes(at);
        nibbles[2 * g] = _mm256_and_si256(bytes, low);
        nibbles[2 * g + 1] = _mm256_and_si256(_mm256_srli_epi16(bytes, 4), low);
      }
      const uint8_t* block = multipliers[u] + (b >> shift) * kPanelRows;
      const __m256i m32 = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(block)));
      const __m256i multiplier = _mm256_or_si256(m32, _mm256_slli_epi32(m32, 16));
      TANDEM_UNROLL for (int t = 0; t < T; ++t) {
        __m256i sum = _mm256_set1_epi32(corrections[t * sub_blocks + b]);
        TANDEM_UNROLL for (int g = 0; g < 2 * G; ++g) {
          sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(nibbles[g], broadcast4(x + t * stride + 4 * g)));
        }
        total[t][u] = _mm256_add_epi32(total[t][u], _mm256_madd_epi16(sum, multiplier));
      }
    }
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int u = 0; u < U; ++u) store_sums(task, (half + u) * 8, token + t, total[t][u]);
  }
}

template <int G>
void linear_nibbles(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols);
  const int64_t sub_blocks = cols / (8 * G);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    const int8_t* x = task.quantized.values + token * task.quantized.stride;
    make_corrections(x, cols, 8 * G, corrections + token * sub_blocks);
  }
  int64_t half = 2 * task.panel_begin;
  const int64_t end = 2 * task.panel_end;
  if (task.tokens == 1) {
    for (; half + kDecodeHalves <= end; half += kDecodeHalves) {
      nibble_tile<1, kDecodeHalves, G>(task, half, 0, corrections);
    }
  }
  for (; half < end; ++half) {
    int64_t token = 0;
    for (; token + kTileTokens <= task.tokens; token += kTileTokens) {
      nibble_tile<kTileTokens, 1, G>(task, half, token, corrections);
    }
    switch (task.tokens - token) {
      case 1: nibble_tile<1, 1, G>(task, half, token, corrections); break;
      case 2: nibble_tile<2, 1, G>(task, half, token, corrections); break;
      case 3: nibble_tile<3, 1, G>(task, half, token, corrections); break;
      default: break;
    }
  }
}

}  // namespace

uint64_t linear_int_scratch_avx2(const PackedMatrix& weight, int64_t tokens) {
  if (weight.format == WeightFormat::kI8) return 0;
  const int64_t sub_block = weight.block < kSubBlock ? weight.block : kSubBlock;
  return static_cast<uint64_t>(tokens * (padded(weight.cols) / sub_block) * 4);
}

void linear_lpbq4_avx2(const LinearTask& task) {
  if (task.weight->block == 16) {
    linear_nibbles<2>(task);
  } else {
    linear_nibbles<4>(task);
  }
}

}  // namespace tandem::cpu
