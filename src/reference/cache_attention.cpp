#include "reference/cache_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
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

// Keys and values of one KV head, up to the last visible slot.
struct HeadRows {
  std::vector<float> keys, values;
  std::vector<ScaleAndMin> encodings;  // Of the values, for QuantizedAttention.
};

// One query of one head. `query` is modified.
void attend(const CacheAttention& work, std::span<float> query, const HeadRows& head, const float* mask,
            std::vector<float>& scores, float* result) {
  const ir::OpAttributes& a = work.attributes;
  const int64_t dim = a.head_dim;
  if (!head.encodings.empty()) fake_quantize_row_i16(query);
  float highest = kMasked;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    float score = dot(query.data(), head.keys.data() + static_cast<int64_t>(j) * dim, dim) * a.factor;
    if (a.softcap > 0.0f) score = a.softcap * std::tanh(score / a.softcap);
    scores[j] = score + mask[j];
    highest = std::max(highest, scores[j]);
  }
  std::vector<double> weights(scores.size());
  double sum = 0.0;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] != kMasked) sum += weights[j] = std::exp(double{scores[j]} - double{highest});
  }
  std::vector<double> total(static_cast<size_t>(dim));
  const std::vector<double> exact = weights;
  if (!head.encodings.empty()) fake_quantize_weights(weights, head.encodings);
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    const float* row = head.values.data() + static_cast<int64_t>(j) * dim;
    const double low = head.encodings.empty() ? 0.0 : double{head.encodings[j].min};
    for (size_t i = 0; i < total.size(); ++i) total[i] += weights[j] * (double{row[i]} - low) + exact[j] * low;
  }
  for (size_t i = 0; i < total.size(); ++i) result[i] = sum == 0.0 ? 0.0f : static_cast<float>(total[i] / sum);
}

}  // namespace

void attend_cache(const CacheAttention& work, float* y, ThreadPool& pool) {
  const int64_t dim = work.attributes.head_dim, group = work.width / dim / work.kv_heads, slots = work.keys.slots;
  const std::vector<float> mask = mask_by_slot(work);
  // Slots after the last visible one are never read.
  int64_t seen = 0;
  for (int64_t i = 0; i < work.tokens * slots; ++i) {
    if (mask[static_cast<size_t>(i)] != kMasked) seen = std::max(seen, i % slots + 1);
  }
  pool.run(work.kv_heads, [&](int64_t kv_head, int) {
    HeadRows head;
    head.keys.resize(static_cast<size_t>(seen * dim));
    head.values.resize(head.keys.size());
    for (int64_t j = 0; j < seen; ++j) {
      work.keys.load(kv_head, j, head.keys.data() + j * dim);
      work.values.load(kv_head, j, head.values.data() + j * dim);
      if (work.quantized) head.encodings.push_back(work.values.encoding(kv_head, j));
    }
    std::vector<float> scores(static_cast<size_t>(seen)), query(static_cast<size_t>(dim));
    for (int64_t n = 0; n < work.tokens; ++n) {
      for (int64_t g = 0; g < group; ++g) {
        const int64_t at = n * work.width + (kv_head * group + g) * dim;
        std::copy_n(work.q + at, dim, query.begin());
        attend(work, query, head, mask.data() + n * slots, scores, y + at);
      }
    }
  });
}

}  // namespace tandem
