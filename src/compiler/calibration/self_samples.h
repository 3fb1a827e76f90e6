// Text that the model itself writes, to calibrate with where the user gives none.
//
// It is drawn from the float model's distribution at temperature 1, so it is what the model expects to see, in its own
// languages and formats; no text has to be chosen, licensed or shipped. (Liu et al., "LLM-QAT", 2023, train on such
// text and find it better than other texts of the same size.)
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "models/model_plan.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

using TokenSamples = std::vector<std::vector<int32_t>>;

// How documents begin and end, in tokens.
struct DocumentTokens {
  std::optional<int32_t> begin;     // Begin of sequence. Without it, samples start with the next ones in turn.
  std::vector<int32_t> first = {};  // Not empty if there is no `begin`.
  std::vector<int32_t> end = {};    // After one of these, the next document begins.
  int64_t vocabulary = 0;           // Tokens from here on stand for nothing.
  // For models with a chat template, whose conversations three of four samples then are: what comes before a user's
  // message, and between the end of that and the answer. The model writes both messages.
  std::vector<int32_t> user = {};
  std::vector<int32_t> assistant = {};
};

struct SelfSampling {
  const ModelPlan& plan;
  const WeightProvider& weights;
  DocumentTokens documents;
  int64_t samples = 0;
  int64_t length = 0;
  uint64_t seed = 1;
  // Keys and values of the sequences that decode together take no more than this, if one sequence does not.
  uint64_t cache_limit = uint64_t{1} << 30;
  ProgressCallback progress = {};
  StopCallback stop = {};
};

// `samples` samples of `length` tokens, the same for any number of threads. The number of one depends on the seed and
// its index alone.
Result<TokenSamples> sample_from_model(const SelfSampling& job, ThreadPool& pool);

// The index at which the running sum of softmax(logits) exceeds `uniform` in [0, 1), among the first
// `logits.size()` tokens without those of `excluded`. `weights` is scratch memory. Fails if a logit is NaN or all are
// -infinity.
Result<int32_t> draw_token(std::span<const float> logits, std::span<const int32_t> excluded, double uniform,
                           std::vector<float>& weights);

// The uniform number in [0, 1) that decides token `position` of a sample.
double uniform_at(uint64_t seed, uint64_t sample, uint64_t position);

}  // namespace tandem
