// Integer linear layers for CPUs with smmla (Armv8.6 and most of Armv9: Cortex-X2, A710, A510 and later; Neoverse V1,
// N2). It multiplies 2 x 8 bytes with 8 x 2: two tokens, two rows. It is used for many tokens, over panels rearranged
// into pairs of rows once for all of them; for few tokens that does not pay off, and sdot is used.
#include "backends/cpu/kernels/linear_int_dotprod.h"

namespace tandem::cpu {
namespace {

// Beyond this many tokens, rearranging a panel pays off.
constexpr int64_t kFewTokens = kNibbleTokens;
constexpr int kTileTokens = 4;  // 16 accumulators of 32 registers; with 24 compilers run out of registers.
constexpr int kRowPairs = static_cast<int>(kPanelRows / 2);

// Four inputs of each row of a quad, and the next four, as two pairs of rows with 8 inputs each.
inline void store_pairs(int8_t* panel, int64_t group, int quad, int8x16_t first, int8x16_t second) {
  const int32x4_t a = vreinterpretq_s32_s8(first), b = vreinterpretq_s32_s8(second);
  int8_t* const to = panel + group * 128 + quad * 32;
  vst1q_s8(to, vreinterpretq_s8_s32(vzip1q_s32(a, b)));
  vst1q_s8(to + 16, vreinterpretq_s8_s32(vzip2q_s32(a, b)));
}

// Rearranges a panel of either format to [col / 8][row pair][2 rows][8 cols].
void rearrange_panel(const PackedMatrix& w, int64_t panel, int8_t* out) {
  if (w.format != WeightFormat::kI8) {
    expand_nibbles(w, panel, [=](int64_t group, int quad, int8x16_t first, int8x16_t second) {
      store_pairs(out, group, quad, first, second);
    });
    return;
  }
  const int8_t* weights = panel_bytes(w, panel);
  for (int64_t group = 0; group < padded(w.cols) / 8; ++group, weights += 128) {
    TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
      store_pairs(out, group, q, load_bytes(weights + q * 16), load_bytes(weights + q * 16 + 64));
    }
  }
}

struct PairTile {
  const LinearTask& task;
  int64_t panel;
  const int8_t* panel_weights;

  template <int T>
  void run(int64_t token) const {
    constexpr int kPairs = (T + 1) / 2;
    const int64_t cols = padded(task.weight->cols), stride = task.quantized.stride;
    const int8_t* weights = panel_weights;
    const int8_t* x = quantized_row(task, token);
    int32x4_t sum[kPairs][kRowPairs];  // Two tokens by two rows each.
    TANDEM_UNROLL for (int p = 0; p < kPairs; ++p) {
      TANDEM_UNROLL for (int r = 0; r < kRowPairs; ++r) sum[p][r] = vdupq_n_s32(0);
    }
    for (int64_t col = 0; col < cols; col += 16, weights += 256) {
      int8x16_t input[2][kPairs];  // Of 8 columns each.
      TANDEM_UNROLL for (int p = 0; p < kPairs; ++p) {
        // The last of an odd number of tokens is its own partner.
        const int64_t first = 2 * p, second = 2 * p + 1 < T ? 2 * p + 1 : first;
        const int64x2_t a = vreinterpretq_s64_s8(load_bytes(x + first * stride + col));
        const int64x2_t b = vreinterpretq_s64_s8(load_bytes(x + second * stride + col));
        input[0][p] = vreinterpretq_s8_s64(vzip1q_s64(a, b));
        input[1][p] = vreinterpretq_s8_s64(vzip2q_s64(a, b));
      }
      TANDEM_UNROLL for (int half = 0; half < 2; ++half) {
        TANDEM_UNROLL for (int r = 0; r < kRowPairs; ++r) {
          const int8x16_t rows = load_bytes(weights + half * 128 + r * 16);
          TANDEM_UNROLL for (int p = 0; p < kPairs; ++p) sum[p][r] = vmmlaq_s32(sum[p][r], input[half][p], rows);
        }
      }
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        const int64x2_t a = vreinterpretq_s64_s32(sum[t / 2][2 * q]), b = vreinterpretq_s64_s32(sum[t / 2][2 * q + 1]);
        const int64x2_t rows = t % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b);
        store_sums(task, panel * kPanelRows + q * 4, token + t, vreinterpretq_s32_s64(rows));
      }
    }
  }
};

void linear_pairs(const LinearTask& task) {
  int8_t* const rearranged = reinterpret_cast<int8_t*>(task.scratch);
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    rearrange_panel(*task.weight, panel, rearranged);
    all_tokens<kTileTokens>(task.tokens, PairTile{task, panel, rearranged});
  }
}

}  // namespace

int64_t multiply_int8_i8mm(int64_t rounds) {
  return count_products(rounds, 32 * 2, [](int32x4_t sum, int8x16_t x) { return vmmlaq_s32(sum, x, x); });
}

uint64_t linear_int_scratch_i8mm(const PackedMatrix& weight, int64_t tokens) {
  return static_cast<uint64_t>(tokens <= kFewTokens ? nibble_scratch(weight, tokens)
                                                    : kPanelRows * padded(weight.cols));
}

void linear_int_i8mm(const LinearTask& task) {
  if (task.tokens > kFewTokens) {
    linear_pairs(task);
  } else if (task.weight->format == WeightFormat::kI8) {
    linear_bytes(task);
  } else {
    linear_nibbles(task);
  }
}

}  // namespace tandem::cpu
