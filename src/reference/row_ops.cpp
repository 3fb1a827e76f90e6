#include "reference/row_ops.h"

#include <cmath>

namespace tandem {

void rms_norm_rows(const float* x, int64_t groups, std::span<const float> weight, float weight_offset, float eps,
                   float* y) {
  const auto group = static_cast<int64_t>(weight.size());
  for (int64_t g = 0; g < groups; ++g, x += group, y += group) {
    double squares = 0.0;
    for (int64_t i = 0; i < group; ++i) squares += static_cast<double>(x[i]) * x[i];
    const auto scale = static_cast<float>(1.0 / std::sqrt(squares / static_cast<double>(group) + eps));
    for (int64_t i = 0; i < group; ++i) y[i] = x[i] * scale * (weight[static_cast<size_t>(i)] + weight_offset);
  }
}

void layer_norm_rows(const float* x, int64_t rows, std::span<const float> weight, std::span<const float> bias,
                     float eps, float* y) {
  const auto width = static_cast<int64_t>(weight.size());
  for (int64_t n = 0; n < rows; ++n, x += width, y += width) {
    double sum = 0.0, squares = 0.0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double scale = 1.0 / std::sqrt(squares / static_cast<double>(width) + eps);
    for (int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<size_t>(i);
      y[i] = static_cast<float>((x[i] - mean) * scale) * weight[at] + bias[at];
    }
  }
}

void rotate_rows(float* x, const float* cos, const float* sin, const RopeShape& shape) {
  const int64_t half = shape.half;
  for (int64_t n = 0; n < shape.rows; ++n, cos += half, sin += half) {
    for (float* head = x + n * shape.width; head < x + (n + 1) * shape.width; head += shape.head_dim) {
      for (int64_t i = 0; i < half; ++i) {
        float& a = head[shape.interleaved ? 2 * i : i];
        float& b = head[shape.interleaved ? 2 * i + 1 : i + half];
        const float a0 = a, b0 = b;
        a = a0 * cos[i] - b0 * sin[i];
        b = b0 * cos[i] + a0 * sin[i];
      }
    }
  }
}

}  // namespace tandem
