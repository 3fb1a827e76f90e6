// Samples the next token from logits.
//
// The order is that of transformers: repetition penalty, temperature, top-k, top-p, min-p. A seed gives the same tokens
// on every platform: the generator (xoshiro256**, seeded by SplitMix64, both by Blackman and Vigna) and the exponential
// are implemented here, and sums have a fixed order.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tandem/sampler_options.h"
#include "tandem/status.h"

namespace tandem {

// Names the first invalid option.
Status validate(const SamplerOptions& options);

class Sampler {
 public:
  static Result<Sampler> create(const SamplerOptions& options);

  // The next token. `logits` has one value per token of the vocabulary; `history` has the tokens so far, prompt
  // included. -inf rules a token out, and so does NaN; +inf rules out all others. Equal logits go to the lowest id.
  // Fails if nothing is left to sample. Allocates only when a vocabulary is larger than any before.
  Result<int32_t> sample(std::span<const float> logits, std::span<const int32_t> history);

  // Whether sample() always returns the first index of the largest logit. Then consume_argmax() is enough, and no
  // logits are needed.
  bool consumes_argmax() const { return options_.temperature == 0 && options_.repetition_penalty == 1; }
  // What sample() returns then. `argmax` is -1 if no logit is above -infinity.
  static Result<int32_t> consume_argmax(int32_t argmax, size_t vocabulary);

  const SamplerOptions& options() const { return options_; }

  // The generator's state, to save and resume a session.
  using State = std::array<uint64_t, 4>;
  const State& state() const { return state_; }
  void set_state(const State& state);

 private:
  struct Candidate {
    double weight;  // Relative to the probability of the most likely token.
    int32_t id;
  };

  explicit Sampler(const SamplerOptions& options);
  double next_uniform();
  void penalize(std::span<float> logits, std::span<const int32_t> history);
  float kth_largest(std::span<const float> logits);
  void keep_top_p();
  void keep_min_p();

  SamplerOptions options_;
  State state_{};
  std::vector<float> changed_;  // The logits after penalties.
  std::vector<Candidate> candidates_;
  std::vector<float> heap_;
  std::vector<uint32_t> seen_;  // Per token: the last call that penalized it.
  uint32_t call_ = 0;
};

}  // namespace tandem
