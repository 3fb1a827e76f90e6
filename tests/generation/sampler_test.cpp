#include "generation/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>

namespace tandem {
namespace sampler_test {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

Sampler make(const SamplerOptions& options) {
  Result<Sampler> sampler = Sampler::create(options);
  EXPECT_TRUE(sampler.ok());
  return *std::move(sampler);
}

std::map<int32_t, int> draw(const SamplerOptions& options, const std::vector<float>& logits, int count,
                            const std::vector<int32_t>& history = {}) {
  Sampler sampler = make(options);
  std::map<int32_t, int> seen;
  for (int i = 0; i < count; ++i) {
    std::vector<float> row = logits;
    const Result<int32_t> id = sampler.sample(row, history);
    EXPECT_TRUE(id.ok());
    ++seen[*id];
  }
  return seen;
}

int32_t greedy(std::vector<float> logits, const std::vector<int32_t>& history = {}, float penalty = 1, int window = 0) {
  SamplerOptions options;
  options.repetition_penalty = penalty;
  options.repetition_window = window;
  Sampler sampler = make(options);
  const Result<int32_t> id = sampler.sample(logits, history);
  return id.ok() ? *id : -1;
}

// Pearson's statistic of the counts against probabilities that sum to 1.
double chi_squared(const std::map<int32_t, int>& seen, const std::vector<double>& probabilities, int count) {
  double sum = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    const auto it = seen.find(static_cast<int32_t>(i));
    const double observed = it == seen.end() ? 0 : it->second;
    const double expected = probabilities[i] * count;
    if (expected > 0) {
      sum += (observed - expected) * (observed - expected) / expected;
    } else {
      EXPECT_EQ(observed, 0) << "token " << i;
    }
  }
  return sum;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature) {
  std::vector<double> probabilities;
  double total = 0;
  for (const float logit : logits) {
    probabilities.push_back(std::exp(static_cast<double>(logit) / temperature));
    total += probabilities.back();
  }
  for (double& p : probabilities) p /= total;
  return probabilities;
}

TEST(Sampler, GreedyReturnsTheHighestAndTheLowestIdOnTies) {
  EXPECT_EQ(greedy({1, 3, 2}), 1);
  EXPECT_EQ(greedy({3, 1, 3}), 0);
  EXPECT_EQ(greedy({-5, -5}), 0);
  EXPECT_EQ(greedy({kNan, 1, kNan, 2}), 3);
  EXPECT_EQ(greedy({-kInf, -3, -kInf}), 1);
  EXPECT_EQ(greedy({1, kInf, kInf}), 1);
}

TEST(Sampler, NothingToSampleIsAnError) {
  for (const float temperature : {0.0f, 1.0f}) {
    SamplerOptions options;
    options.temperature = temperature;
    options.top_k = 2;
    options.top_p = 0.9f;
    Sampler sampler = make(options);
    std::vector<float> none;
    EXPECT_FALSE(sampler.sample(none, {}).ok());
    std::vector<float> row = {kNan, -kInf, kNan};
    const Result<int32_t> id = sampler.sample(row, {});
    ASSERT_FALSE(id.ok());
    EXPECT_NE(id.error().message.find("all 3 logits"), std::string::npos);
  }
}

TEST(Sampler, StrangeLogitsWithTemperature) {
  SamplerOptions options;
  options.temperature = 0.7f;
  const auto seen = draw(options, {kNan, 1, -kInf, 1, 3e38f, -3e38f}, 200);
  EXPECT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen.begin()->first, 4);
  EXPECT_EQ(draw(options, {0, kInf, 5}, 50).begin()->first, 1);
  options.temperature = 1e-38f;
  EXPECT_EQ(draw(options, {1, 1.5f, 1.25f}, 50).at(1), 50);
}

TEST(Sampler, FollowsTheDistribution) {
  const std::vector<float> logits = {0.5f, 2.0f, -1.0f, 1.0f, 0.0f, 1.5f, -0.5f, 0.25f};
  constexpr int kCount = 40000;
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    SamplerOptions options;
    options.temperature = temperature;
    options.seed = 7;
    // 7 degrees of freedom: 24.3 is exceeded once in a thousand; the seed is fixed.
    EXPECT_LT(chi_squared(draw(options, logits, kCount), softmax(logits, temperature), kCount), 24.3) << temperature;
  }
}

TEST(Sampler, TopKKeepsTheLargestAndTies) {
  const std::vector<float> logits = {1, 4, 3, 2, 3, -kInf};
  const auto kept = [&](int k) {
    SamplerOptions options;
    options.temperature = 3;
    options.top_k = k;
    std::set<int32_t> ids;
    for (const auto& [id, count] : draw(options, logits, 3000)) ids.insert(id);
    return ids;
  };
  EXPECT_EQ(kept(1), (std::set<int32_t>{1}));
  EXPECT_EQ(kept(2), (std::set<int32_t>{1, 2, 4}));  // Two tie for the second rank.
  EXPECT_EQ(kept(4), (std::set<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(kept(100), (std::set<int32_t>{0, 1, 2, 3, 4}));
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625.
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {-ln2, -2 * ln2, -3 * ln2, -4 * ln2, -4 * ln2};
  const auto kept = [&](float p) {
    SamplerOptions options;
    options.temperature = 1;
    options.top_p = p;
    return draw(options, logits, 4000).size();
  };
  EXPECT_EQ(kept(0.01f), 1u);
  EXPECT_EQ(kept(0.49f), 1u);
  EXPECT_EQ(kept(0.51f), 2u);
  EXPECT_EQ(kept(0.74f), 2u);
  EXPECT_EQ(kept(0.80f), 3u);
  EXPECT_EQ(kept(0.90f), 4u);
  EXPECT_EQ(kept(0.99f), 5u);
  SamplerOptions options;
  options.temperature = 1;
  options.top_p = 0.8f;
  const double total = 0.875;
  EXPECT_LT(chi_squared(draw(options, logits, 20000), {0.5 / total, 0.25 / total, 0.125 / total, 0, 0}, 20000), 13.8);
}

TEST(Sampler, MinPKeepsAShareOfTheMostLikely) {
  const float ln2 = std::log(2.0f);
  const std::vector<float> logits = {-ln2, -2 * ln2, -3 * ln2, -4 * ln2, -4 * ln2};
  SamplerOptions options;
  options.temperature = 1;
  options.min_p = 0.4f;
  EXPECT_EQ(draw(options, logits, 2000).size(), 2u);
  options.min_p = 0.2f;
  EXPECT_EQ(draw(options, logits, 2000).size(), 3u);
  options.min_p = 1;
  EXPECT_EQ(draw(options, logits, 2000).size(), 1u);
}

TEST(Sampler, RepetitionPenaltyIsThatOfTransformers) {
  // Positive logits are divided, negative ones multiplied, once per token.
  EXPECT_EQ(greedy({3, 2, 1}, {0}, 2.0f), 1);
  EXPECT_EQ(greedy({3, 2, 1}, {0, 0, 0}, 1.4f), 0);
  EXPECT_EQ(greedy({-1, -1.5f}, {0}, 2.0f), 1);
  EXPECT_EQ(greedy({3, 2}, {0, 1}, 2.0f), 0);
  EXPECT_EQ(greedy({3, 2}, {0, 1, 1}, 2.0f, 2), 0);  // The window no longer has token 0.
  EXPECT_EQ(greedy({3, 2}, {-1, 99, 0}, 2.0f), 1);   // Ids outside the vocabulary are ignored.
  EXPECT_EQ(greedy({1, 1.2f}, {0}, 0.5f), 0);        // Below 1 it rewards.
}

TEST(Sampler, ASeedGivesTheSameTokensEverywhere) {
  std::vector<float> logits;
  for (int i = 0; i < 100; ++i) logits.push_back(static_cast<float>((i * 37) % 100) / 20.0f);
  SamplerOptions options;
  options.temperature = 0.9f;
  options.top_k = 50;
  options.top_p = 0.95f;
  options.min_p = 0.01f;
  options.seed = 42;
  Sampler sampler = make(options);
  std::vector<int32_t> ids;
  for (int i = 0; i < 12; ++i) {
    std::vector<float> row = logits;
    ids.push_back(*sampler.sample(row, {}));
  }
  // From an implementation of the published algorithms in another language.
  EXPECT_EQ(ids, (std::vector<int32_t>{37, 5, 89, 54, 27, 35, 62, 81, 35, 43, 62, 13}));
  const Sampler::State state = sampler.state();
  std::vector<float> row = logits;
  const int32_t next = *sampler.sample(row, {});
  sampler.set_state(state);
  row = logits;
  EXPECT_EQ(*sampler.sample(row, {}), next);
  options.seed = 43;
  Sampler other = make(options);
  std::vector<int32_t> others;
  for (int i = 0; i < 12; ++i) {
    row = logits;
    others.push_back(*other.sample(row, {}));
  }
  EXPECT_NE(others, ids);
}

TEST(Sampler, ValidatesByName) {
  const auto refused = [](auto change) {
    SamplerOptions options;
    change(options);
    const Result<Sampler> sampler = Sampler::create(options);
    return sampler.ok() ? std::string() : sampler.error().message;
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  for (const float bad : {-0.1f, kNan, kInf}) {
    EXPECT_TRUE(has(refused([&](auto& o) { o.temperature = bad; }), "temperature"));
  }
  for (const float bad : {0.0f, 1.1f, -1.0f, kNan}) {
    EXPECT_TRUE(has(refused([&](auto& o) { o.top_p = bad; }), "top_p"));
  }
  for (const float bad : {-0.1f, 1.1f, kNan}) EXPECT_TRUE(has(refused([&](auto& o) { o.min_p = bad; }), "min_p"));
  for (const float bad : {0.0f, -1.0f, kNan, kInf}) {
    EXPECT_TRUE(has(refused([&](auto& o) { o.repetition_penalty = bad; }), "repetition_penalty"));
  }
  EXPECT_TRUE(has(refused([](auto& o) { o.top_k = -1; }), "top_k"));
  EXPECT_TRUE(has(refused([](auto& o) { o.repetition_window = -1; }), "repetition_window"));
  EXPECT_EQ(refused([](auto&) {}), "");
}

// Against a plain loop: at every index, next to ties, among NaN, in vocabularies of any size.
TEST(Sampler, GreedyReturnsTheFirstArgmax) {
  std::mt19937 random(3);
  Sampler sampler = make({});
  for (int round = 0; round < 2000; ++round) {
    const size_t size = round < 100 ? static_cast<size_t>(round) + 1 : 1 + random() % 10000;
    std::vector<float> row(size);
    const uint64_t values = 1 + random() % 2000;  // Few distinct values: many ties.
    for (float& value : row) {
      value = static_cast<float>(random() % values) - 1000.0f;
      if (round % 3 == 0 && random() % 4 == 0) value = kNan;
      if (round % 5 == 0 && random() % 4 == 0) value = -kInf;
    }
    if (round % 7 == 0) row[random() % size] = kInf;
    int32_t want = -1;
    for (size_t i = 0; i < size; ++i) {
      if (!std::isnan(row[i]) && row[i] > (want < 0 ? -kInf : row[static_cast<size_t>(want)])) {
        want = static_cast<int32_t>(i);
      }
    }
    const Result<int32_t> got = sampler.sample(row, {});
    ASSERT_EQ(got.ok(), want >= 0);
    if (want < 0) continue;
    ASSERT_EQ(*got, want) << "of " << size;
  }
}

}  // namespace sampler_test
}  // namespace tandem
