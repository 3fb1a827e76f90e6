#include "eval/kl_divergence.h"

#include <algorithm>
#include <cmath>

namespace tandem {

void KlDivergence::add(std::span<const float> wanted, double wanted_sum, std::span<const float> got, double got_sum) {
  size_t wanted_argmax = 0, got_argmax = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] > wanted[wanted_argmax]) wanted_argmax = i;
    if (got[i] > got[got_argmax]) got_argmax = i;
  }
  values_.push_back(kl_divergence(wanted, wanted_sum, got, got_sum));
  if (wanted_argmax == got_argmax) ++same_argmax_;
}

double KlDivergence::mean() const {
  double sum = 0.0;
  for (const double value : values_) sum += value;
  return values_.empty() ? std::nan("") : sum / static_cast<double>(values_.size());
}

double KlDivergence::percentile(double fraction) const {
  // Sorting needs comparable numbers: logits that are not numbers have no percentiles.
  if (values_.empty() || std::ranges::any_of(values_, [](double value) { return std::isnan(value); })) {
    return std::nan("");
  }
  std::vector<double> sorted = values_;
  const double position = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(position);
  const auto nth = sorted.begin() + static_cast<std::ptrdiff_t>(below);
  std::ranges::nth_element(sorted, nth);
  const double value = *nth;
  if (below + 1 == sorted.size()) return value;
  const double next = *std::min_element(nth + 1, sorted.end());
  // Two equal ends first: infinity minus infinity is not a number.
  return next == value ? value : value + (next - value) * (position - static_cast<double>(below));
}

double KlDivergence::top1_agreement() const {
  return values_.empty() ? std::nan("") : static_cast<double>(same_argmax_) / static_cast<double>(values_.size());
}

}  // namespace tandem
