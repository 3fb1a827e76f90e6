// The interpreter's activations, norms and rotary embedding.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>

namespace tandem {

inline float silu(float v) { return v / (1.0f + std::exp(-v)); }
inline float gelu_tanh(float v) {
  constexpr float kRoot = 0.7978845608028654f;  // sqrt(2 / pi)
  return 0.5f * v * (1.0f + std::tanh(kRoot * (v + 0.044715f * v * v * v)));
}

// 0: no limit.
inline float softcap(float v, float limit) { return limit > 0.0f ? limit * std::tanh(v / limit) : v; }

// Normalizes each group of weight.size() numbers on its own.
void rms_norm_rows(const float* x, int64_t groups, std::span<const float> weight, float weight_offset, float eps,
                   float* y);
void layer_norm_rows(const float* x, int64_t rows, std::span<const float> weight, std::span<const float> bias,
                     float eps, float* y);

struct RopeShape {
  int64_t rows = 0;
  int64_t width = 0;  // Of a row: all heads.
  int64_t head_dim = 0;
  int64_t half = 0;  // Rotated pairs in each head.
  bool interleaved = false;
};
// In place; cos and sin are [rows, half].
void rotate_rows(float* x, const float* cos, const float* sin, const RopeShape& shape);

}  // namespace tandem
