// int8 linear layers for AVX2. vpmaddubsw adds two products of an unsigned and a signed byte into an int16 and
// saturates; with |weight| <= 128 as the unsigned side and +-activation (within 127) as the signed side a pair is at
// most 2 * 128 * 127 = 32512 and never does.
#include "backends/cpu/kernels/linear_int_avx2.h"

namespace tandem::cpu {
namespace {

constexpr int kTileTokens = 4;
constexpr int64_t kPrefetchBytes = 2048;

// T tokens by one panel, as two halves of 8 rows.
template <int T>
void byte_tile(const LinearTask& task, int64_t panel, int64_t token) {
  const int64_t cols = padded(task.weight->cols);
  const uint8_t* weights = task.weight->data + panel * kPanelRows * cols;
  const int64_t stride = task.quantized.stride;
  const int8_t* x = task.quantized.values + token * stride;
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum[T][2];
  TANDEM_UNROLL for (int t = 0; t < T; ++t) sum[t][0] = sum[t][1] = _mm256_setzero_si256();
  for (int64_t col = 0; col < cols; col += 4) {
    __m256i w[2], magnitude[2];
    _mm_prefetch(reinterpret_cast<const char*>(weights + col * kPanelRows + kPrefetchBytes), _MM_HINT_T0);
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
      w[h] = load_bytes(weights + col * kPanelRows + h * 32);
      magnitude[h] = _mm256_abs_epi8(w[h]);
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      const __m256i input = broadcast4(x + t * stride + col);
      TANDEM_UNROLL for (int h = 0; h < 2; ++h) {
        const __m256i pairs = _mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(input, w[h]));
        sum[t][h] = _mm256_add_epi32(sum[t][h], _mm256_madd_epi16(pairs, ones));
      }
    }
  }
  TANDEM_UNROLL for (int t = 0; t < T; ++t) {
    TANDEM_UNROLL for (int h = 0; h < 2; ++h) store_sums(task, panel * kPanelRows + h * 8, token + t, sum[t][h]);
  }
}

}  // namespace

// Multiplying four bytes takes vpmaddubsw, vpmaddwd and an addition here.
int64_t multiply_int8_avx2(int64_t rounds) {
  constexpr int kSums = 12;
  __m256i sum[kSums], x = _mm256_set1_epi8(3);
  const __m256i ones = _mm256_set1_epi16(1);
  for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+x"(x));  // To the compiler, a new operand each time.
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) {
      const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_add_epi8(x, sum[k]));
      sum[k] = _mm256_add_epi32(sum[k], _mm256_madd_epi16(pairs, ones));
    }
  }
  for (__m256i& s : sum) asm volatile("" : : "x"(s));
  return rounds * kSums * 32 * 2;
}

void linear_i8_avx2(const LinearTask& task) {
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    int64_t token = 0;
    for (; token + kTileTokens <= task.tokens; token += kTileTokens) byte_tile<kTileTokens>(task, panel, token);
    switch (task.tokens - token) {
      case 1: byte_tile<1>(task, panel, token); break;
      case 2: byte_tile<2>(task, panel, token); break;
      case 3: byte_tile<3>(task, panel, token); break;
      default: break;
    }
  }
}

}  // namespace tandem::cpu
