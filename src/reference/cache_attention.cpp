#include "reference/cache_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/matmul.h"

namespace tandem {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The mask by slot: [tokens, slots]. With a window, position p is in slot p modulo the slots.
std::vector<float> mask_by_slot(const CacheAttention& work) {
  const int64_t slots = work.keys.slots, window = work.attributes.window;
  std::vector<float> by_slot(static_cast<size_t>(work.tokens * slots), kMasked);
  for (int64_t n = 0; n < work.tokens; ++n) {
    const float* row = work.mask + n * work.context;
    float* to = by_slot.data() + n * slots;
    if (window == 0) {
      std::copy_n(row, slots, to);
      continue;
    }
    for (int64_t j = std::max<int64_t>(work.positions[n] - window + 1, 0); j <= work.positions[n]; ++j) {
      to[j % slots] = row[j];
    }
  }
  return by_slot;
}

// One query of one head.
void attend(const CacheAttention& work, const float* q, const std::vector<float>& k, const std::vector<float>& v,
            const float* mask, std::vector<float>& scores, float* result) {
  const ir::OpAttributes& a = work.attributes;
  const int64_t dim = a.head_dim;
  float highest = kMasked;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    float score = dot(q, k.data() + static_cast<int64_t>(j) * dim, dim) * a.factor;
    if (a.softcap > 0.0f) score = a.softcap * std::tanh(score / a.softcap);
    scores[j] = score + mask[j];
    highest = std::max(highest, scores[j]);
  }
  std::fill_n(result, dim, 0.0f);
  double sum = 0.0;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    const float weight = std::exp(scores[j] - highest);
    sum += weight;
    const float* row = v.data() + static_cast<int64_t>(j) * dim;
    for (int64_t i = 0; i < dim; ++i) result[i] += weight * row[i];
  }
  if (sum == 0.0) return;
  const auto scale = static_cast<float>(1.0 / sum);
  for (int64_t i = 0; i < dim; ++i) result[i] *= scale;
}

}  // namespace

void attend_cache(const CacheAttention& work, float* y, ThreadPool& pool) {
  const int64_t dim = work.attributes.head_dim, group = work.width / dim / work.kv_heads, slots = work.keys.slots;
  const std::vector<float> mask = mask_by_slot(work);
  // Slots beyond the last visible one are never looked at.
  int64_t seen = 0;
  for (int64_t i = 0; i < work.tokens * slots; ++i) {
    if (mask[static_cast<size_t>(i)] != kMasked) seen = std::max(seen, i % slots + 1);
  }
  pool.run(work.kv_heads, [&](int64_t kv_head, int) {
    std::vector<float> k(static_cast<size_t>(seen * dim)), v(k.size());
    for (int64_t j = 0; j < seen; ++j) {
      work.keys.load(kv_head, j, k.data() + j * dim);
      work.values.load(kv_head, j, v.data() + j * dim);
    }
    std::vector<float> scores(static_cast<size_t>(seen));
    for (int64_t n = 0; n < work.tokens; ++n) {
      for (int64_t g = 0; g < group; ++g) {
        const int64_t at = n * work.width + (kv_head * group + g) * dim;
        attend(work, work.q + at, k, v, mask.data() + n * slots, scores, y + at);
      }
    }
  });
}

}  // namespace tandem
