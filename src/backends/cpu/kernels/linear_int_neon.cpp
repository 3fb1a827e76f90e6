// Integer linear layers for every 64-bit ARM CPU: no dot products, only products of bytes that add up in int16.
//   kI8      Two products of a weight (within 128) and an activation (within 127) are at most 32512: smull, smlal, and
//            sadalp adds neighbours to int32.
//   kLpbq4   On nibbles for any number of tokens, because a block of up to 64 columns adds up in int16: four int16 per
//            row, at most 16 * 8 * 127 = 16256 each, two of them together 32512. So only one in 4 to 16 multiply-adds
//            has to be widened; expanding to int8 would widen every second one. The sums start at -8 times the sum of
//            the activations, because a nibble is q + 8. They may wrap in between; the final sum fits.
#include "backends/cpu/kernels/linear_int_neon.h"

namespace tandem::cpu {
namespace {

constexpr int kByteTokens = 2;    // 16 accumulators of 32 registers, with two rows in each.
constexpr int kNibbleTokens = 2;  // With more, compilers keep the inputs of a block in memory instead of registers.

// Four inputs, four times.
inline int8x16_t broadcast4(const int8_t* p) {
  int32_t word;
  __builtin_memcpy(&word, p, sizeof(word));
  return vreinterpretq_s8_s32(vdupq_n_s32(word));
}

// Rows 0 and 1 of a quad are in the lower half of its vectors, rows 2 and 3 in the upper one.
inline int16x8_t multiply_low(int8x16_t a, int8x16_t b) { return vmull_s8(vget_low_s8(a), vget_low_s8(b)); }
inline int16x8_t multiply_high(int8x16_t a, int8x16_t b) { return vmull_high_s8(a, b); }
inline int16x8_t multiply_add_low(int16x8_t sum, int8x16_t a, int8x16_t b) {
  return vmlal_s8(sum, vget_low_s8(a), vget_low_s8(b));
}
inline int16x8_t multiply_add_high(int16x8_t sum, int8x16_t a, int8x16_t b) { return vmlal_high_s8(sum, a, b); }

struct ByteTile {
  const LinearTask& task;
  int64_t panel;

  template <int T>
  void run(int64_t token) const {
    const int64_t cols = padded(task.weight->cols), stride = task.quantized.stride;
    const int8_t* weights = panel_bytes(*task.weight, panel);
    const int8_t* x = quantized_row(task, token);
    int32x4_t sum[T][kQuads][2];
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) sum[t][q][0] = sum[t][q][1] = vdupq_n_s32(0);
    }
    for (int64_t col = 0; col < cols; col += 8, weights += 128) {
      __builtin_prefetch(weights + kPrefetchBytes);
      __builtin_prefetch(weights + kPrefetchBytes + 64);
      int8x16_t first[T], second[T];
      TANDEM_UNROLL for (int t = 0; t < T; ++t) {
        first[t] = broadcast4(x + t * stride + col);
        second[t] = broadcast4(x + t * stride + col + 4);
      }
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        const int8x16_t a = load_bytes(weights + q * 16), b = load_bytes(weights + 64 + q * 16);
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          const int16x8_t low = multiply_add_low(multiply_low(a, first[t]), b, second[t]);
          const int16x8_t high = multiply_add_high(multiply_high(a, first[t]), b, second[t]);
          sum[t][q][0] = vpadalq_s16(sum[t][q][0], low);
          sum[t][q][1] = vpadalq_s16(sum[t][q][1], high);
        }
      }
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        store_sums(task, panel * kPanelRows + q * 4, token + t, vpaddq_s32(sum[t][q][0], sum[t][q][1]));
      }
    }
  }
};

// For each block: -8 * (sum of the activations of columns 0, 4, 8, ..; 1, 5, ..; 2, 6, ..; 3, 7, ..).
void make_corrections(const int8_t* x, int64_t cols, int64_t block, int16_t* out) {
  for (int64_t col = 0; col < cols; col += block, out += 4) {
    int16x8_t sum = vdupq_n_s16(0);
    for (int64_t i = 0; i < block; i += 8) sum = vaddw_s8(sum, vld1_s8(x + col + i));
    vst1_s16(out, vmul_n_s16(vadd_s16(vget_low_s16(sum), vget_high_s16(sum)), -8));
  }
}

// S: steps of 16 columns to a block.
template <int S>
struct NibbleTile {
  const LinearTask& task;
  int64_t panel;
  const int16_t* corrections;

  template <int T>
  void run(int64_t token) const {
    const int64_t blocks = padded(task.weight->cols) / (16 * S), stride = task.quantized.stride;
    const uint8_t* data = panel_nibbles(*task.weight, panel);
    const uint8_t* multipliers = panel_multipliers(*task.weight, panel);
    const int8_t* x = quantized_row(task, token);
    const int16_t* correction = corrections + token * blocks * 4;
    int32x4_t total[T][kQuads];
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) total[t][q] = vdupq_n_s32(0);
    }
    for (int64_t b = 0; b < blocks; ++b, x += 16 * S, data += 128 * S, multipliers += 16, correction += 4) {
      TANDEM_UNROLL for (int s = 0; s < 2 * S; ++s) __builtin_prefetch(data + s * 64 + kPrefetchBytes);
      const uint8x16_t factors = vld1q_u8(multipliers);
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        int16x8_t low[T], high[T];
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          const int16x4_t start = vld1_s16(correction + t * blocks * 4);
          low[t] = high[t] = vcombine_s16(start, start);
        }
        TANDEM_UNROLL for (int s = 0; s < 2 * S; ++s) {
          const uint8x16_t bytes = vld1q_u8(data + s * 64 + q * 16);
          const int8x16_t first = low_nibbles(bytes), second = high_nibbles(bytes);
          TANDEM_UNROLL for (int t = 0; t < T; ++t) {
            const int8x16_t a = broadcast4(x + t * stride + 8 * s), c = broadcast4(x + t * stride + 8 * s + 4);
            low[t] = multiply_add_low(multiply_add_low(low[t], first, a), second, c);
            high[t] = multiply_add_high(multiply_add_high(high[t], first, a), second, c);
          }
        }
        const int32x4_t multiplier = quad_multipliers(factors, q);
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          total[t][q] = vmlaq_s32(total[t][q], vpaddlq_s16(vpaddq_s16(low[t], high[t])), multiplier);
        }
      }
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        store_sums(task, panel * kPanelRows + q * 4, token + t, total[t][q]);
      }
    }
  }
};

template <int S>
void linear_nibbles(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols), blocks = cols / (16 * S);
  int16_t* corrections = reinterpret_cast<int16_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    make_corrections(quantized_row(task, token), cols, 16 * S, corrections + token * blocks * 4);
  }
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    all_tokens<kNibbleTokens>(task.tokens, NibbleTile<S>{task, panel, corrections});
  }
}

}  // namespace

// Four products of bytes and their sums take smull, smlal and sadalp here.
int64_t multiply_int8_neon(int64_t rounds) {
  constexpr int kSums = 16;
  int32x4_t sum[kSums];
  int8x8_t x = vdup_n_s8(3);
  for (int32x4_t& s : sum) s = vdupq_n_s32(0);
  for (int64_t i = 0; i < rounds; ++i) {
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) {
      asm volatile("" : "+w"(x));  // Another operand each time, for all that the compiler knows.
      sum[k] = vpadalq_s16(sum[k], vmlal_s8(vmull_s8(x, x), x, x));
    }
  }
  for (int32x4_t& s : sum) asm volatile("" : : "w"(s));
  return rounds * kSums * 16 * 2;
}

uint64_t linear_int_scratch_neon(const PackedMatrix& weight, int64_t tokens) {
  if (weight.format == WeightFormat::kI8) return 0;
  return static_cast<uint64_t>(tokens * (padded(weight.cols) / weight.block) * 8);
}

void linear_int_neon(const LinearTask& task) {
  if (task.weight->format == WeightFormat::kI8) {
    for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
      all_tokens<kByteTokens>(task.tokens, ByteTile{task, panel});
    }
  } else if (task.weight->block == 16) {
    linear_nibbles<1>(task);
  } else if (task.weight->block == 32) {
    linear_nibbles<2>(task);
  } else {
    linear_nibbles<4>(task);
  }
}

}  // namespace tandem::cpu
