// How far a model's next-token distributions are from those of the float model.
#pragma once

#include <span>
#include <vector>

#include "eval/metrics.h"

namespace tandem {

// KL(wanted || got) of the next-token distributions, and how often both have the same most likely token. In double
// precision from the logits. Keeps one number per row, so that percentiles are exact.
class KlDivergence {
 public:
  // The logits of one position, of equal lengths. `wanted_sum` and `got_sum` are their log_sum_exp().
  void add(std::span<const float> wanted, double wanted_sum, std::span<const float> got, double got_sum);
  int64_t rows() const { return static_cast<int64_t>(values_.size()); }

  // NaN without rows.
  double mean() const;
  // `fraction` from 0 to 1; between two rows interpolated linearly, as numpy does.
  double percentile(double fraction) const;
  double top1_agreement() const;

 private:
  std::vector<double> values_;
  int64_t same_argmax_ = 0;
};

}  // namespace tandem
