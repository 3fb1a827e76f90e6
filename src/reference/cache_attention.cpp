#include "reference/cache_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "linalg/multiply.h"
#include "reference/matmul.h"
#include "reference/softmax.h"

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
  const float* keys = nullptr;
  const float* values = nullptr;
  std::vector<ScaleAndMin> encodings;  // Of the values, for QuantizedAttention.
  std::optional<bool> values_are_finite;
};

// One query of one head over a cache that QuantizedAttention multiplies as stored. `query` is modified.
void attend_quantized(const CacheAttention& work, std::span<float> query, const HeadRows& head, const float* mask,
                      std::vector<float>& scores, float* result) {
  const ir::OpAttributes& a = work.attributes;
  const int64_t dim = a.head_dim;
  fake_quantize_row_i16(query);
  float highest = kMasked;
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    float score = dot(query.data(), head.keys + static_cast<int64_t>(j) * dim, dim) * a.factor;
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
  fake_quantize_weights(weights, head.encodings);
  for (size_t j = 0; j < scores.size(); ++j) {
    if (mask[j] == kMasked) continue;
    const float* row = head.values + static_cast<int64_t>(j) * dim;
    const double low = head.encodings[j].min;
    for (size_t i = 0; i < total.size(); ++i) total[i] += weights[j] * (double{row[i]} - low) + exact[j] * low;
  }
  for (size_t i = 0; i < total.size(); ++i) result[i] = sum == 0.0 ? 0.0f : static_cast<float>(total[i] / sum);
}

// What a thread keeps between its tasks.
struct AttentionScratch {
  int64_t head_index = -1;  // Whose rows `head` has.
  HeadRows head;
  std::vector<float> keys, values;  // Caches that are not f32 are converted.
  std::vector<float> queries, scores, results;
  MultiplyScratch multiply;
};

void load_head(const CacheAttention& work, int64_t kv_head, int64_t seen, AttentionScratch& scratch) {
  if (scratch.head_index == kv_head) return;
  scratch.head_index = kv_head;
  HeadRows& head = scratch.head;
  head.encodings.clear();
  head.values_are_finite.reset();
  const int64_t dim = work.attributes.head_dim, slots = work.keys.slots;
  const auto rows_of = [&](const KvRows& rows, std::vector<float>& converted) -> const float* {
    if (rows.dtype == DType::kF32) return static_cast<const float*>(rows.data) + kv_head * slots * dim;
    converted.resize(static_cast<size_t>(seen * dim));
    for (int64_t j = 0; j < seen; ++j) rows.load(kv_head, j, converted.data() + j * dim);
    return converted.data();
  };
  head.keys = rows_of(work.keys, scratch.keys);
  head.values = rows_of(work.values, scratch.values);
  for (int64_t j = 0; work.quantized && j < seen; ++j) head.encodings.push_back(work.values.encoding(kv_head, j));
}

bool values_are_finite(HeadRows& head, int64_t count) {
  if (!head.values_are_finite) {
    head.values_are_finite =
        std::all_of(head.values, head.values + count, [](float value) { return std::isfinite(value); });
  }
  return *head.values_are_finite;
}

struct SlotRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// The slots that any of these tokens sees.
SlotRange visible_slots(const float* mask, int64_t tokens, int64_t slots) {
  SlotRange range{slots, 0};
  for (int64_t n = 0; n < tokens; ++n, mask += slots) {
    int64_t first = 0, last = slots;
    while (first < range.begin && mask[first] == kMasked) ++first;
    while (last > range.end && mask[last - 1] == kMasked) --last;
    range = {std::min(range.begin, first), std::max(range.end, last)};
  }
  return range.begin < range.end ? range : SlotRange{};
}

// Scores to weights, in place; returns their sum, 0 if nothing is visible.
double weigh(const ir::OpAttributes& a, float* scores, const float* mask, int64_t count) {
  float highest = kMasked;
  bool is_visible = false;
  for (int64_t j = 0; j < count; ++j) {
    is_visible |= mask[j] != kMasked;
    float score = scores[j] * a.factor;
    if (a.softcap > 0.0f) score = a.softcap * std::tanh(score / a.softcap);
    scores[j] = mask[j] == kMasked ? kMasked : score + mask[j];
    highest = std::max(highest, scores[j]);
  }
  if (is_visible) return exp_row(scores, count, highest);  // NaN if all scores are.
  std::fill_n(scores, count, 0.0f);
  return 0.0;
}

// Tokens that are multiplied with keys and values together.
struct QueryBlock {
  int64_t kv_head = 0, begin = 0, tokens = 0;
};

// All heads of a block's group at once, as two products. Every visible slot takes part for every query, with weight
// zero where it is masked: so values have to be finite.
void attend_block(const CacheAttention& work, const QueryBlock& block, const float* mask, AttentionScratch& scratch,
                  float* y) {
  const int64_t dim = work.attributes.head_dim, group = work.width / dim / work.kv_heads, slots = work.keys.slots;
  const int64_t rows = block.tokens * group, first_column = block.kv_head * group * dim;
  mask += block.begin * slots;
  const SlotRange seen = visible_slots(mask, block.tokens, slots);
  scratch.queries.resize(static_cast<size_t>(rows * dim));
  scratch.results.assign(static_cast<size_t>(rows * dim), 0.0f);
  scratch.scores.resize(static_cast<size_t>(rows * seen.size()));
  for (int64_t n = 0; n < block.tokens; ++n) {
    std::copy_n(work.q + (block.begin + n) * work.width + first_column, group * dim,
                scratch.queries.data() + n * group * dim);
  }
  const Matrix scores(scratch.scores.data(), rows, seen.size()), results(scratch.results.data(), rows, dim);
  multiply_nt({scratch.queries.data(), rows, dim}, {scratch.head.keys + seen.begin * dim, seen.size(), dim}, scores,
              scratch.multiply);
  std::vector<double> sums(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    sums[static_cast<size_t>(row)] =
        weigh(work.attributes, scores.row(row), mask + row / group * slots + seen.begin, seen.size());
  }
  multiply_nn(scores, {scratch.head.values + seen.begin * dim, seen.size(), dim}, results, scratch.multiply);
  for (int64_t row = 0; row < rows; ++row) {
    const double sum = sums[static_cast<size_t>(row)];
    const auto scale = sum == 0.0 ? 0.0f : static_cast<float>(1.0 / sum);
    float* const to = y + (block.begin + row / group) * work.width + first_column + row % group * dim;
    for (int64_t i = 0; i < dim; ++i) to[i] = results.row(row)[i] * scale;
  }
}

void attend_each(const CacheAttention& work, const QueryBlock& block, const float* mask, int64_t seen,
                 AttentionScratch& scratch, float* y) {
  const int64_t dim = work.attributes.head_dim, group = work.width / dim / work.kv_heads;
  scratch.scores.resize(static_cast<size_t>(seen));
  scratch.queries.resize(static_cast<size_t>(dim));
  for (int64_t n = block.begin; n < block.begin + block.tokens; ++n) {
    for (int64_t g = 0; g < group; ++g) {
      const int64_t at = n * work.width + (block.kv_head * group + g) * dim;
      const float* const own_mask = mask + n * work.keys.slots;
      if (work.quantized) {
        std::copy_n(work.q + at, dim, scratch.queries.begin());
        attend_quantized(work, scratch.queries, scratch.head, own_mask, scratch.scores, y + at);
        continue;
      }
      for (int64_t j = 0; j < seen; ++j) {
        scratch.scores[static_cast<size_t>(j)] = dot(work.q + at, scratch.head.keys + j * dim, dim);
      }
      const double sum = weigh(work.attributes, scratch.scores.data(), own_mask, seen);
      sum_weighted_rows(scratch.scores.data(), scratch.head.values, seen, dim, y + at);
      const auto scale = sum == 0.0 ? 0.0f : static_cast<float>(1.0 / sum);
      for (int64_t i = 0; i < dim; ++i) y[at + i] *= scale;
    }
  }
}

// Below, packing keys and values for products costs more than it saves.
constexpr int64_t kFewQueries = 8;

}  // namespace

void attend_cache(const CacheAttention& work, float* y, ThreadPool& pool) {
  const int64_t dim = work.attributes.head_dim, group = work.width / dim / work.kv_heads, slots = work.keys.slots;
  const std::vector<float> mask = mask_by_slot(work);
  // Slots after the last visible one are never read.
  const int64_t seen = visible_slots(mask.data(), work.tokens, slots).end;
  // As many rows as a product likes, and earlier blocks see fewer slots.
  const int64_t tokens_per_block = std::max<int64_t>(96 / group, 1);
  const int64_t blocks = (work.tokens + tokens_per_block - 1) / tokens_per_block;
  std::vector<AttentionScratch> scratch(static_cast<size_t>(pool.size()));
  pool.run(work.kv_heads * blocks, [&](int64_t task, int thread) {
    AttentionScratch& own = scratch[static_cast<size_t>(thread)];
    const int64_t begin = task % blocks * tokens_per_block;
    const QueryBlock block{task / blocks, begin, std::min(tokens_per_block, work.tokens - begin)};
    load_head(work, block.kv_head, seen, own);
    if (work.quantized || block.tokens * group < kFewQueries || !values_are_finite(own.head, seen * dim)) {
      attend_each(work, block, mask.data(), seen, own, y);
    } else {
      attend_block(work, block, mask.data(), own, y);
    }
  });
}

}  // namespace tandem
