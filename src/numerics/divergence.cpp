#include "numerics/divergence.h"

#include <algorithm>
#include <cmath>

namespace tandem {

double log_sum_exp(std::span<const float> logits) {
  const float highest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return std::log(sum) + highest;
}

double kl_divergence(std::span<const float> wanted, double wanted_sum, std::span<const float> got, double got_sum) {
  double divergence = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const double log_wanted = wanted[i] - wanted_sum;
    const double p = std::exp(log_wanted);
    if (p != 0.0) divergence += p * (log_wanted - (got[i] - got_sum));
  }
  return divergence;
}

}  // namespace tandem
