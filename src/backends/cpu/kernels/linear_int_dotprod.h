// Integer linear layers with sdot: each of four lanes adds four products of bytes. Shared by the kernels for CPUs with
// that instruction alone and for those with smmla too; internal linkage, included by them only.
//   few tokens, kLpbq4    the nibbles as stored, q + 8; a block's sum starts at -8 times the sum of its activations,
//   and
//                         is multiplied with the block's multiplier when it is added to the row's sum.
//   otherwise             int8 weights; kLpbq4 is expanded to such weights first, a panel at a time.
#pragma once

#include "backends/cpu/kernels/linear_int_neon.h"

namespace tandem::cpu {
namespace {

// Beyond this many tokens, expanding a panel of nibbles pays off.
constexpr int kNibbleTokens = 4;
constexpr int kByteTokens = 4;  // 16 accumulators of 32 registers.

// `rounds` of products with operands in registers, for multiply_int8(); each counts as `operations`.
template <typename Multiply>
inline int64_t count_products(int64_t rounds, int64_t operations, Multiply&& multiply) {
  constexpr int kSums = 16;
  int32x4_t sum[kSums];
  int8x16_t x = vdupq_n_s8(3);
  for (int32x4_t& s : sum) s = vdupq_n_s32(0);
  for (int64_t i = 0; i < rounds; ++i) {
    asm volatile("" : "+w"(x));  // To the compiler, a new operand each time.
    TANDEM_UNROLL for (int k = 0; k < kSums; ++k) sum[k] = multiply(sum[k], x);
  }
  for (int32x4_t& s : sum) asm volatile("" : : "w"(s));
  return rounds * kSums * operations;
}

// -8 * (sum of activations) for each block.
inline void make_corrections(const int8_t* x, int64_t cols, int64_t block, int32_t* out) {
  for (int64_t col = 0; col < cols; col += block) {
    int32x4_t sum = vdupq_n_s32(0);
    for (int64_t i = 0; i < block; i += 16) sum = vdotq_s32(sum, load_bytes(x + col + i), vdupq_n_s8(-8));
    *out++ = vaddvq_s32(sum);
  }
}

// S: steps of 16 columns to a block.
template <int S>
struct NibbleTile {
  const LinearTask& task;
  int64_t panel;
  const int32_t* corrections;

  template <int T>
  void run(int64_t token) const {
    // Quads whose sums are computed side by side: independent instructions, as far as there are registers.
    constexpr int kSide = T <= 2 ? kQuads : 1;
    const int64_t blocks = padded(task.weight->cols) / (16 * S), stride = task.quantized.stride;
    const uint8_t* data = panel_nibbles(*task.weight, panel);
    const uint8_t* multipliers = panel_multipliers(*task.weight, panel);
    const int8_t* x = quantized_row(task, token);
    const int32_t* correction = corrections + token * blocks;
    int32x4_t total[T][kQuads];
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) total[t][q] = vdupq_n_s32(0);
    }
    for (int64_t b = 0; b < blocks; ++b, x += 16 * S, data += 128 * S, multipliers += 16, ++correction) {
      TANDEM_UNROLL for (int s = 0; s < 2 * S; ++s) __builtin_prefetch(data + s * 64 + kPrefetchBytes);
      const uint8x16_t factors = vld1q_u8(multipliers);
      TANDEM_UNROLL for (int first = 0; first < kQuads; first += kSide) {
        int32x4_t sum[T][kSide];
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          TANDEM_UNROLL for (int q = 0; q < kSide; ++q) sum[t][q] = vdupq_n_s32(correction[t * blocks]);
        }
        TANDEM_UNROLL for (int s = 0; s < S; ++s) {
          int8x16_t input[T];
          TANDEM_UNROLL for (int t = 0; t < T; ++t) input[t] = load_bytes(x + t * stride + 16 * s);
          TANDEM_UNROLL for (int q = 0; q < kSide; ++q) {
            const uint8_t* at = data + s * 128 + (first + q) * 16;
            const uint8x16_t left = vld1q_u8(at), right = vld1q_u8(at + 64);
            const int8x16_t n0 = low_nibbles(left), n1 = high_nibbles(left);
            const int8x16_t n2 = low_nibbles(right), n3 = high_nibbles(right);
            TANDEM_UNROLL for (int t = 0; t < T; ++t) {
              sum[t][q] = vdotq_laneq_s32(sum[t][q], n0, input[t], 0);
              sum[t][q] = vdotq_laneq_s32(sum[t][q], n1, input[t], 1);
              sum[t][q] = vdotq_laneq_s32(sum[t][q], n2, input[t], 2);
              sum[t][q] = vdotq_laneq_s32(sum[t][q], n3, input[t], 3);
            }
          }
        }
        TANDEM_UNROLL for (int q = 0; q < kSide; ++q) {
          const int32x4_t multiplier = quad_multipliers(factors, first + q);
          TANDEM_UNROLL for (int t = 0; t < T; ++t) {
            total[t][first + q] = vmlaq_s32(total[t][first + q], sum[t][q], multiplier);
          }
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
inline void linear_nibbles_of(const LinearTask& task) {
  const int64_t cols = padded(task.weight->cols), blocks = cols / (16 * S);
  int32_t* corrections = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; ++token) {
    make_corrections(quantized_row(task, token), cols, 16 * S, corrections + token * blocks);
  }
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    all_tokens<kNibbleTokens>(task.tokens, NibbleTile<S>{task, panel, corrections});
  }
}

inline void linear_nibbles(const LinearTask& task) {
  switch (task.weight->block) {
    case 16: linear_nibbles_of<1>(task); return;
    case 32: linear_nibbles_of<2>(task); return;
    default: linear_nibbles_of<4>(task); return;
  }
}
inline int64_t nibble_scratch(const PackedMatrix& w, int64_t tokens) {
  return w.format == WeightFormat::kI8 ? 0 : tokens * (padded(w.cols) / w.block) * 4;
}

// Expands a panel of nibbles to int8 weights, multiplier * q; store(group of 8 columns, quad, first 4, last 4 columns).
template <typename Store>
inline void expand_nibbles(const PackedMatrix& w, int64_t panel, Store store) {
  const int64_t cols = padded(w.cols), groups = w.block / 8;
  const uint8_t* data = panel_nibbles(w, panel);
  const uint8_t* multipliers = panel_multipliers(w, panel);
  for (int64_t group = 0; group < cols / 8; group += groups, multipliers += 16) {
    const uint8x16_t factors = vld1q_u8(multipliers);
    TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
      const int8x16_t factor = quad_multiplier_bytes(factors, q);
      const int8x16_t offset = vmulq_s8(factor, vdupq_n_s8(-8));
      for (int64_t g = group; g < group + groups; ++g) {
        const uint8x16_t bytes = vld1q_u8(data + g * 64 + q * 16);
        // Modulo 256 on the way; multiplier * q is within -128..112.
        store(g, q, vmlaq_s8(offset, low_nibbles(bytes), factor), vmlaq_s8(offset, high_nibbles(bytes), factor));
      }
    }
  }
}

struct ByteTile {
  const LinearTask& task;
  int64_t panel;
  const int8_t* panel_weights;  // Laid out like a panel of kI8.

  template <int T>
  void run(int64_t token) const {
    const int64_t cols = padded(task.weight->cols), stride = task.quantized.stride;
    const int8_t* weights = panel_weights;
    const int8_t* x = quantized_row(task, token);
    int32x4_t sum[T][kQuads];
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) sum[t][q] = vdupq_n_s32(0);
    }
    for (int64_t col = 0; col < cols; col += 16, weights += 256) {
      TANDEM_UNROLL for (int i = 0; i < 4; ++i) __builtin_prefetch(weights + i * 64 + kPrefetchBytes);
      int8x16_t input[T];
      TANDEM_UNROLL for (int t = 0; t < T; ++t) input[t] = load_bytes(x + t * stride + col);
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        const int8_t* at = weights + q * 16;
        const int8x16_t w0 = load_bytes(at), w1 = load_bytes(at + 64);
        const int8x16_t w2 = load_bytes(at + 128), w3 = load_bytes(at + 192);
        TANDEM_UNROLL for (int t = 0; t < T; ++t) {
          sum[t][q] = vdotq_laneq_s32(sum[t][q], w0, input[t], 0);
          sum[t][q] = vdotq_laneq_s32(sum[t][q], w1, input[t], 1);
          sum[t][q] = vdotq_laneq_s32(sum[t][q], w2, input[t], 2);
          sum[t][q] = vdotq_laneq_s32(sum[t][q], w3, input[t], 3);
        }
      }
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int q = 0; q < kQuads; ++q) {
        store_sums(task, panel * kPanelRows + q * 4, token + t, sum[t][q]);
      }
    }
  }
};

// kI8, for any number of tokens, without scratch memory.
inline void linear_bytes(const LinearTask& task) {
  for (int64_t panel = task.panel_begin; panel < task.panel_end; ++panel) {
    all_tokens<kByteTokens>(task.tokens, ByteTile{task, panel, panel_bytes(*task.weight, panel)});
  }
}

}  // namespace
}  // namespace tandem::cpu
