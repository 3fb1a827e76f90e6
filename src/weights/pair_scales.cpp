#include "weights/pair_scales.h"

#include <algorithm>
#include <cmath>

namespace tandem {
namespace {

constexpr float kLeastShare = 1.0f / 4096.0f;  // Of the largest scale.
constexpr float kPeak = 3.0f;                  // The largest of a head's values, in units of their root mean square.
// Relative to the geometric mean. On the quality model all channels are below; where a rotation concentrates its
// residual stream in few channels, 1.5 loses least (docs/quantization.md).
constexpr float kMostGrowth = 1.5f;

}  // namespace

void set_peaks(std::span<float> head, std::span<const float> bias, const HeadShape& shape) {
  const auto rotated = static_cast<size_t>(2 * shape.rotated_pairs);
  for (size_t i = rotated; i < head.size(); ++i) head[i] = kPeak * head[i] + std::abs(bias[i]);
  for (size_t i = 0; i < rotated / 2; ++i) {
    const size_t a = shape.interleaved ? 2 * i : i, b = shape.interleaved ? 2 * i + 1 : i + rotated / 2;
    const float size = std::sqrt((head[a] * head[a] + head[b] * head[b]) / 2.0f);
    head[a] = head[b] = kPeak * size + std::hypot(bias[a], bias[b]);
  }
}

void normalize_scales(std::span<float> scales) {
  const float most = scales.empty() ? 0.0f : *std::ranges::max_element(scales);
  if (!(most > 0.0f) || !std::isfinite(most)) {  // Nothing to equalize; quantizing reports what is not finite.
    std::ranges::fill(scales, 1.0f);
    return;
  }
  double logs = 0.0;
  for (float& scale : scales) {
    scale = std::max(scale, kLeastShare * most);
    logs += std::log(static_cast<double>(scale));
  }
  const double mean = std::exp(logs / static_cast<double>(scales.size()));
  for (float& scale : scales) scale = static_cast<float>(scale / mean);
}

void limit_growth(std::span<float> scales, std::span<const float> sizes) {
  std::vector<float> grown(scales.size());
  for (size_t i = 0; i < scales.size(); ++i) grown[i] = scales[i] * sizes[i];
  normalize_scales(grown);
  for (size_t i = 0; i < scales.size(); ++i) scales[i] *= std::min(1.0f, kMostGrowth / grown[i]);
}

PairScales::Factors factors_of(std::span<const float> scales) {
  PairScales::Factors factors;
  for (const float scale : scales) factors.first.push_back(1.0f / scale);
  factors.second.assign(scales.begin(), scales.end());
  return factors;
}

std::vector<float> gather_from_query_heads(std::span<const float> sizes, const HeadShape& shape) {
  const int64_t group = shape.heads / shape.kv_heads, kv_width = shape.kv_heads * shape.head_dim;
  std::vector<float> gathered;
  for (int64_t channel = 0; channel < kv_width; ++channel) {
    double squares = 0.0;
    for (int64_t i = 0; i < group; ++i) {
      const int64_t head = channel / shape.head_dim * group + i;
      const double size = sizes[static_cast<size_t>(head * shape.head_dim + channel % shape.head_dim)];
      squares += size * size;
    }
    gathered.push_back(static_cast<float>(std::sqrt(squares / static_cast<double>(group))));
  }
  return gathered;
}

std::vector<float> spread_to_query_heads(std::span<const float> scales, const HeadShape& shape) {
  std::vector<float> spread;
  for (int64_t head = 0; head < shape.heads; ++head) {
    const auto from = scales.subspan(static_cast<size_t>(head / (shape.heads / shape.kv_heads) * shape.head_dim),
                                     static_cast<size_t>(shape.head_dim));
    spread.insert(spread.end(), from.begin(), from.end());
  }
  return spread;
}

}  // namespace tandem
