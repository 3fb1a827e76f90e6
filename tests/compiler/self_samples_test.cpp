// Text sampled from the model itself: its distribution, and that nothing but the seed decides it.
#include "compiler/calibration/self_samples.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "compiler/calibration/batch_decoder.h"
#include "support/compiled_model.h"
#include "support/golden.h"
#include "support/opened_model.h"
#include "support/reference_logits.h"

namespace tandem::self_samples_test {

class EachFamily : public testing::TestWithParam<const char*> {};

// Three sequences that differ, side by side, against each on its own in one call.
TEST_P(EachFamily, SequencesInABatchComputeWhatEachWouldAlone) {
  const test::OpenedModel model(test::golden_dir(GetParam()));
  const std::vector<int32_t> prompt = test::golden_prompt(GetParam());
  const auto length = static_cast<int64_t>(prompt.size()), vocabulary = model.plan().vocab_size;
  std::vector<std::vector<int32_t>> sequences(3, prompt);
  for (size_t i = 0; i < prompt.size(); ++i) {
    sequences[1][i] = prompt[prompt.size() - 1 - i];
    sequences[2][i] = static_cast<int32_t>((prompt[i] + 5) % vocabulary);
  }
  ThreadPool pool(2);
  auto decoder = BatchDecoder::create(model.plan(), model.weights(), {3, length}, pool);
  ASSERT_TRUE(decoder.ok()) << decoder.error().message;
  std::vector<std::vector<float>> batched(3);
  for (size_t i = 0; i < prompt.size(); ++i) {
    const auto logits = (*decoder)->step(std::vector{sequences[0][i], sequences[1][i], sequences[2][i]});
    ASSERT_TRUE(logits.ok()) << logits.error().message;
    for (size_t s = 0; s < 3; ++s) {
      const auto row = logits->subspan(s * static_cast<size_t>(vocabulary), static_cast<size_t>(vocabulary));
      batched[s].insert(batched[s].end(), row.begin(), row.end());
    }
  }
  for (size_t s = 0; s < 3; ++s) {
    const std::vector<float> alone = test::reference_logits(model.checkpoint(), sequences[s]);
    ASSERT_EQ(alone.size(), batched[s].size());
    float largest = 0.0f;
    for (const float logit : alone) largest = std::max(largest, std::abs(logit));
    for (size_t i = 0; i < alone.size(); ++i) ASSERT_NEAR(batched[s][i], alone[i], 1e-5f * std::max(largest, 1.0f));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, EachFamily, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

SelfSampling sampling_of(const test::OpenedModel& model) {
  DocumentTokens documents;
  documents.begin = 1;
  documents.vocabulary = model.plan().vocab_size;
  return {.plan = model.plan(), .weights = model.weights(), .documents = documents, .samples = 6, .length = 20};
}

TokenSamples must_sample(const SelfSampling& job, int threads) {
  ThreadPool pool(threads);
  auto samples = sample_from_model(job, pool);
  EXPECT_TRUE(samples.ok()) << samples.error().message;
  return samples.ok() ? *std::move(samples) : TokenSamples();
}

TEST(SelfSamples, AreTheSameForAnyNumberOfThreadsAndWaves) {
  const test::OpenedModel model(test::golden_dir("gemma2"));
  SelfSampling job = sampling_of(model);
  const TokenSamples samples = must_sample(job, 1);
  ASSERT_EQ(samples.size(), 6u);
  for (const auto& sample : samples) EXPECT_EQ(sample.size(), 20u);
  EXPECT_NE(samples[0], samples[1]);
  EXPECT_EQ(must_sample(job, 2), samples);
  EXPECT_EQ(must_sample(job, 5), samples);
  job.seed = 2;
  EXPECT_NE(must_sample(job, 2), samples);
}

// The second tokens of many samples, whose distribution is the softmax of the logits after the first. Chi-squared with
// tokens pooled to an expectation of 8 at least; the seed is fixed, and the limit is that of one in a million seeds.
TEST(SelfSamples, HaveTheDistributionOfTheLogits) {
  const test::OpenedModel model(test::golden_dir("llama3_2"));
  SelfSampling job = sampling_of(model);
  job.samples = 4000;
  job.length = 2;
  job.cache_limit = uint64_t{8} << 20;
  const TokenSamples samples = must_sample(job, 2);
  ASSERT_EQ(samples.size(), 4000u);
  const std::vector<float> logits = test::reference_logits(model.checkpoint(), {1});
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  std::map<int32_t, int> counts;
  for (const auto& sample : samples) ++counts[sample[1]];
  double chi_squared = 0.0, expected = 0.0, seen = 0.0;
  int bins = 0;
  for (size_t token = 0; token < logits.size(); ++token) {
    expected += 4000.0 * std::exp(double{logits[token]}) / sum;
    seen += counts[static_cast<int32_t>(token)];
    if (expected < 8.0) continue;
    chi_squared += (seen - expected) * (seen - expected) / expected;
    expected = seen = 0.0;
    ++bins;
  }
  ASSERT_GT(bins, 20);
  // Wilson and Hilferty's approximation of the quantile; 4.75 standard deviations.
  const double freedom = bins - 1, h = 2.0 / (9.0 * freedom);
  EXPECT_LT(chi_squared, freedom * std::pow(1.0 - h + 4.75 * std::sqrt(h), 3.0));
  EXPECT_GT(chi_squared, freedom * std::pow(1.0 - h - 4.75 * std::sqrt(h), 3.0));
}

TEST(SelfSamples, ANewDocumentBeginsAfterTheEndOfOne) {
  const test::OpenedModel model(test::golden_dir("llama3_2"));
  SelfSampling job = sampling_of(model);
  for (int32_t token = 0; token < job.plan.vocab_size; token += 2) job.documents.end.push_back(token);  // Every second.
  job.samples = 8;
  int ends = 0;
  for (const auto& sample : must_sample(job, 2)) {
    EXPECT_EQ(sample[0], 1);
    for (size_t i = 1; i < sample.size(); ++i) {
      if (sample[i - 1] % 2 == 0) {
        EXPECT_EQ(sample[i], 1);
        ++ends;
      }
      if (sample[i - 1] == 1) {
        EXPECT_EQ(sample[i] % 2, 1) << "a document has one token at least";
      }
    }
  }
  EXPECT_GT(ends, 20);
}

TEST(SelfSamples, StopsAndStaysWithinTheVocabulary) {
  const test::OpenedModel model(test::golden_dir("llama3_2"));
  SelfSampling job = sampling_of(model);
  job.documents.begin.reset();
  job.documents.first = {3, 5};
  job.documents.vocabulary = 9;
  const TokenSamples samples = must_sample(job, 2);
  for (size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i][0], i % 2 == 0 ? 3 : 5);
    for (const int32_t token : samples[i]) EXPECT_LT(token, 9);
  }
  int polls = 0;
  job.stop = [&] { return ++polls > 3; };
  ThreadPool pool(2);
  const auto stopped = sample_from_model(job, pool);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
}

TEST(DrawToken, FollowsTheRunningSumAndRefusesNan) {
  std::vector<float> scratch;
  const std::vector<float> logits = {std::log(1.0f), std::log(2.0f), -INFINITY, std::log(5.0f)};
  for (const auto& [uniform, token] :
       std::vector<std::pair<double, int>>{{0.0, 0}, {0.12, 0}, {0.13, 1}, {0.37, 1}, {0.38, 3}, {0.9999999, 3}}) {
    EXPECT_EQ(*draw_token(logits, {}, uniform, scratch), token) << uniform;
  }
  EXPECT_EQ(*draw_token(logits, std::vector<int32_t>{3}, 0.99, scratch), 1);
  EXPECT_FALSE(draw_token(std::vector<float>{1.0f, NAN}, {}, 0.5, scratch).ok());
  EXPECT_FALSE(draw_token(std::vector<float>{-INFINITY, -INFINITY}, {}, 0.5, scratch).ok());
}

}  // namespace tandem::self_samples_test
