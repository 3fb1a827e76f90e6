// Linear layers with float weights (kF32, kF16, kBF16), panels of [col][16 rows]. Included after one simd_*.h; internal
// linkage (see simd_portable.h).
//
// A tile of tokens x panels stays in registers over the columns; the tokens' activations are interleaved first.
// Whatever the tile's shape, each output adds its products in the same order: column by column within a chunk of
// kChunkCols, then chunk by chunk (which also keeps the rounding error of long rows small).
#pragma once

namespace tandem::cpu {
namespace {

constexpr int64_t kChunkCols = 256;
constexpr int kPanelVectors = static_cast<int>(kPanelRows / kLanes);

template <WeightFormat W>
constexpr int64_t kWeightBytes = W == WeightFormat::kF32 ? 4 : 2;

template <WeightFormat W>
inline F load_weight(const uint8_t* p) {
  if constexpr (W == WeightFormat::kF32) {
    return load(reinterpret_cast<const float*>(p));
  } else if constexpr (W == WeightFormat::kF16) {
    return load_f16(reinterpret_cast<const uint16_t*>(p));
  } else {
    return load_bf16(reinterpret_cast<const uint16_t*>(p));
  }
}

// x: [cols][T]; weights: P panels, the first of which is number `panel`.
template <WeightFormat W, int T, int P>
inline void float_tile(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, const float* x) {
  constexpr int64_t kVectorBytes = kLanes * kWeightBytes<W>;
  const int64_t cols = task.weight->cols;
  const int64_t panel_bytes = cols * kPanelRows * kWeightBytes<W>;
  F total[T][P][kPanelVectors] = {};
  for (int64_t begin = 0; begin < cols; begin += kChunkCols) {
    const int64_t end = begin + kChunkCols < cols ? begin + kChunkCols : cols;
    F sum[T][P][kPanelVectors] = {};
    for (int64_t col = begin; col < end; ++col) {
      F w[P][kPanelVectors];
      TANDEM_UNROLL for (int p = 0; p < P; ++p) {
        TANDEM_UNROLL for (int v = 0; v < kPanelVectors; ++v) {
          w[p][v] = load_weight<W>(weights + p * panel_bytes + (col * kPanelVectors + v) * kVectorBytes);
        }
      }
      TANDEM_UNROLL for (int t = 0; t < T; ++t) {
        const F input = set1(x[col * T + t]);
        TANDEM_UNROLL for (int p = 0; p < P; ++p) {
          TANDEM_UNROLL for (int v = 0; v < kPanelVectors; ++v) sum[t][p][v] = fma(input, w[p][v], sum[t][p][v]);
        }
      }
    }
    TANDEM_UNROLL for (int t = 0; t < T; ++t) {
      TANDEM_UNROLL for (int p = 0; p < P; ++p) {
        TANDEM_UNROLL for (int v = 0; v < kPanelVectors; ++v) total[t][p][v] = total[t][p][v] + sum[t][p][v];
      }
    }
  }
  for (int t = 0; t < T; ++t) {
    for (int p = 0; p < P; ++p) {
      for (int v = 0; v < kPanelVectors; ++v) {
        const int64_t row = (panel + p) * kPanelRows + v * kLanes;
        const int64_t left = task.weight->rows - row;
        const int64_t at = (token + t) * task.y_stride + row;
        F y = total[t][p][v];
        if (left >= kLanes) {
          if (task.bias != nullptr) y = y + load(task.bias + row);
          if (task.added != nullptr) y = y + load(task.added + at);
          store(task.y + at, y);
        } else if (left > 0) {
          if (task.bias != nullptr) y = y + load_n(task.bias + row, left);
          if (task.added != nullptr) y = y + load_n(task.added + at, left);
          store_n(task.y + at, y, left);
        }
      }
    }
  }
}

// The last `tokens` < T tokens, with a tile of exactly that size.
template <WeightFormat W, int T, int P>
inline void float_tail(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t token, int64_t tokens,
                       const float* x) {
  if constexpr (T > 1) {
    if (tokens == T - 1) {
      float_tile<W, T - 1, P>(task, weights, panel, token, x);
    } else {
      float_tail<W, T - 1, P>(task, weights, panel, token, tokens, x);
    }
  }
}

// Tokens [begin, end), interleaved in x tile by tile.
template <WeightFormat W, int P>
inline void float_panels(const LinearTask& task, const uint8_t* weights, int64_t panel, int64_t begin, int64_t end,
                         const float* x) {
  const int64_t cols = task.weight->cols;
  int64_t token = begin;
  for (; token + kTileTokens <= end; token += kTileTokens, x += kTileTokens * cols) {
    float_tile<W, kTileTokens, P>(task, weights, panel, token, x);
  }
  if (token < end) float_tail<W, kTileTokens, P>(task, weights, panel, token, end - token, x);
}

// Tokens that are interleaved at a time, to stay in the second-level cache.
constexpr int64_t kBlockTokens = 48;
static_assert(kBlockTokens % kTileTokens == 0);
static_assert(!kExpandHalf || kTilePanels == 1);

inline int64_t interleaved_floats(int64_t cols, int64_t tokens) {
  return round_up_16((tokens < kBlockTokens ? tokens : kBlockTokens) * cols);
}

uint64_t linear_float_scratch(const PackedMatrix& weight, int64_t tokens) {
  if (tokens <= 1) return 0;
  const int64_t expanded = kExpandHalf && weight.format != WeightFormat::kF32 ? kPanelRows * weight.cols : 0;
  return static_cast<uint64_t>(interleaved_floats(weight.cols, tokens) + expanded) * sizeof(float);
}

template <WeightFormat W>
void linear_float_token(const LinearTask& task) {
  const int64_t panel_bytes = task.weight->cols * kPanelRows * kWeightBytes<W>;
  int64_t panel = task.panel_begin;
  for (; panel + kDecodePanels <= task.panel_end; panel += kDecodePanels) {
    float_tile<W, 1, kDecodePanels>(task, task.weight->data + panel * panel_bytes, panel, 0, task.x);
  }
  for (; panel < task.panel_end; ++panel) {
    float_tile<W, 1, 1>(task, task.weight->data + panel * panel_bytes, panel, 0, task.x);
  }
}

template <WeightFormat W>
void linear_float(const LinearTask& task) {
  if (task.tokens == 1) {
    linear_float_token<W>(task);
    return;
  }
  const int64_t cols = task.weight->cols;
  const int64_t panel_bytes = cols * kPanelRows * kWeightBytes<W>;
  float* x = reinterpret_cast<float*>(task.scratch);
  float* expanded = x + interleaved_floats(cols, task.tokens);
  for (int64_t begin = 0; begin < task.tokens; begin += kBlockTokens) {
    const int64_t end = begin + kBlockTokens < task.tokens ? begin + kBlockTokens : task.tokens;
    for (int64_t token = begin; token < end; token += kTileTokens) {
      const int64_t rows = end - token < kTileTokens ? end - token : kTileTokens;
      interleave_rows(task.x + token * task.x_stride, task.x_stride, rows, cols, x + (token - begin) * cols);
    }
    int64_t panel = task.panel_begin;
    for (; panel + kTilePanels <= task.panel_end; panel += kTilePanels) {
      const uint8_t* weights = task.weight->data + panel * panel_bytes;
      if constexpr (kExpandHalf && W != WeightFormat::kF32) {
        for (int64_t i = 0; i < cols * kPanelRows; i += kLanes) {
          store(expanded + i, load_weight<W>(weights + i * kWeightBytes<W>));
        }
        const uint8_t* bytes = reinterpret_cast<const uint8_t*>(expanded);
        float_panels<WeightFormat::kF32, kTilePanels>(task, bytes, panel, begin, end, x);
      } else {
        float_panels<W, kTilePanels>(task, weights, panel, begin, end, x);
      }
    }
    for (; panel < task.panel_end; ++panel) {
      float_panels<W, 1>(task, task.weight->data + panel * panel_bytes, panel, begin, end, x);
    }
  }
}

}  // namespace
}  // namespace tandem::cpu
