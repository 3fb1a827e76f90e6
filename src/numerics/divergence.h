// How far two next-token distributions are from each other, from their logits.
#pragma once

#include <span>

namespace tandem {

// log(sum(exp(logits))), in double precision: what is subtracted from logits to make log-probabilities.
double log_sum_exp(std::span<const float> logits);

// KL(wanted || got) in nats; the sums are the rows' log_sum_exp(). A token that `wanted` rules out adds nothing.
double kl_divergence(std::span<const float> wanted, double wanted_sum, std::span<const float> got, double got_sum);

}  // namespace tandem
