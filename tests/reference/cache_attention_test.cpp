// Attention in blocks against one query at a time in double.
#include "reference/cache_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace tandem::cache_attention_test {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

struct Shape {
  int64_t tokens = 37, heads = 6, kv_heads = 2, dim = 20, context = 64, slots = 64, window = 0;
  float softcap = 0.0f;
  int64_t first = 20;  // Position of the first token.
};

struct Data {
  std::vector<float> q, k, v, mask;
  std::vector<int32_t> positions;
};

Data make_data(const Shape& shape) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  Data data;
  const auto fill = [&](std::vector<float>& values, int64_t count) {
    values.resize(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
  };
  fill(data.q, shape.tokens * shape.heads * shape.dim);
  fill(data.k, shape.kv_heads * shape.slots * shape.dim);
  fill(data.v, shape.kv_heads * shape.slots * shape.dim);
  data.mask.assign(static_cast<size_t>(shape.tokens * shape.context), kMasked);
  for (int64_t n = 0; n < shape.tokens; ++n) {
    const bool is_padding = n >= shape.tokens - 2;
    const int64_t position = is_padding ? -1 : shape.first + n;
    data.positions.push_back(static_cast<int32_t>(position));
    for (int64_t j = 0; j <= position; ++j) data.mask[static_cast<size_t>(n * shape.context + j)] = 0.0f;
  }
  return data;
}

std::vector<float> attend(const Shape& shape, Data& data, int threads) {
  CacheAttention work;
  work.q = data.q.data();
  work.mask = data.mask.data();
  work.positions = data.positions.data();
  work.keys = {DType::kF32, data.k.data(), nullptr, shape.slots, shape.dim};
  work.values = {DType::kF32, data.v.data(), nullptr, shape.slots, shape.dim};
  work.tokens = shape.tokens;
  work.width = shape.heads * shape.dim;
  work.context = shape.context;
  work.kv_heads = shape.kv_heads;
  work.attributes.head_dim = static_cast<int32_t>(shape.dim);
  work.attributes.factor = 0.3f;
  work.attributes.softcap = shape.softcap;
  work.attributes.window = static_cast<int32_t>(shape.window);
  std::vector<float> y(data.q.size(), 99.0f);
  ThreadPool pool(threads);
  attend_cache(work, y.data(), pool);
  return y;
}

// By the definition.
double expected_at(const Shape& shape, const Data& data, int64_t n, int64_t head, int64_t i) {
  const int64_t kv = head / (shape.heads / shape.kv_heads), position = data.positions[static_cast<size_t>(n)];
  double sum = 0.0, total = 0.0;
  const int64_t first = shape.window > 0 ? std::max<int64_t>(position - shape.window + 1, 0) : 0;
  for (int64_t j = first; j <= position; ++j) {
    const int64_t row = (kv * shape.slots + j % shape.slots) * shape.dim;
    double score = 0.0;
    for (int64_t d = 0; d < shape.dim; ++d) {
      score += double{data.q[static_cast<size_t>((n * shape.heads + head) * shape.dim + d)]} *
               double{data.k[static_cast<size_t>(row + d)]};
    }
    score *= double{0.3f};
    if (shape.softcap > 0.0f) score = shape.softcap * std::tanh(score / shape.softcap);
    sum += std::exp(score);
    total += std::exp(score) * double{data.v[static_cast<size_t>(row + i)]};
  }
  return sum == 0.0 ? 0.0 : total / sum;
}

TEST(CacheAttention, AgreesWithItsDefinition) {
  Shape plain, capped, windowed, few;
  capped.softcap = 2.0f;
  windowed.window = 9;
  windowed.slots = 50;
  few.tokens = 3;
  for (const Shape& shape : {plain, capped, windowed, few}) {
    Data data = make_data(shape);
    const std::vector<float> y = attend(shape, data, 2);
    for (int64_t n = 0; n < shape.tokens; ++n) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        for (int64_t i = 0; i < shape.dim; ++i) {
          ASSERT_NEAR(y[static_cast<size_t>((n * shape.heads + head) * shape.dim + i)],
                      expected_at(shape, data, n, head, i), 3e-6)
              << n << " " << head << " " << i;
        }
      }
    }
    EXPECT_EQ(y, attend(shape, data, 1));
  }
}

TEST(CacheAttention, NumbersThatAreNotFiniteReachOnlyThoseWhoSeeThem) {
  const Shape shape;
  const int64_t bad = shape.first + 10;  // The slot of the eleventh token.
  for (const bool in_values : {true, false}) {
    Data data = make_data(shape);
    auto& rows = in_values ? data.v : data.k;
    for (int64_t i = 0; i < shape.dim; ++i) {
      rows[static_cast<size_t>(bad * shape.dim + i)] = std::numeric_limits<float>::quiet_NaN();
    }
    const std::vector<float> y = attend(shape, data, 2);
    for (int64_t n = 0; n < shape.tokens - 2; ++n) {
      const float first = y[static_cast<size_t>(n * shape.heads * shape.dim)];  // Head 0, whose keys are bad.
      EXPECT_EQ(std::isnan(first), n >= 10) << n;
    }
  }
}

}  // namespace tandem::cache_attention_test
