#include "quant/score_range.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "quant/value_range.h"

namespace tandem {

Result<Interval> masked_score_range(float lowest_row_max, float highest, float factor) {
  if (!std::isfinite(factor) || factor <= 0.0f) {
    return invalid_argument("attention scores: the softmax factor is {}, but should be above 0", factor);
  }
  if (!std::isfinite(lowest_row_max) || !std::isfinite(highest) || lowest_row_max > highest) {
    return invalid_argument("attention scores: no range from a lowest row maximum of {} and a highest score of {}",
                            lowest_row_max, highest);
  }
  constexpr double kReach = 20.0;
  const double low = static_cast<double>(lowest_row_max) - kReach / static_cast<double>(factor);
  if (low < -static_cast<double>(std::numeric_limits<float>::max())) {
    return invalid_argument("attention scores: the softmax factor {} is too small for any range", factor);
  }
  return Interval{static_cast<float>(low), highest};
}

RowMaxObserver::RowMaxObserver(std::string name) : name_(std::move(name)) {}

void RowMaxObserver::add_row(std::span<const float> visible_scores) {
  if (visible_scores.empty()) return;
  const ValueRange seen = value_range(visible_scores.data(), visible_scores.size());
  if (!seen.finite) {
    ++broken_rows_;
    return;
  }
  lowest_row_max_ = rows_ == 0 ? seen.high : std::min(lowest_row_max_, seen.high);
  highest_ = rows_ == 0 ? seen.high : std::max(highest_, seen.high);
  ++rows_;
}

void RowMaxObserver::merge(const RowMaxObserver& other) {
  broken_rows_ += other.broken_rows_;
  if (other.rows_ == 0) return;
  lowest_row_max_ = rows_ == 0 ? other.lowest_row_max_ : std::min(lowest_row_max_, other.lowest_row_max_);
  highest_ = rows_ == 0 ? other.highest_ : std::max(highest_, other.highest_);
  rows_ += other.rows_;
}

Result<Interval> RowMaxObserver::range(float factor) const {
  if (broken_rows_ > 0) {
    return invalid_argument("{}: {} of {} rows of attention scores hold infinity or not-a-number", name_, broken_rows_,
                            broken_rows_ + rows_);
  }
  if (rows_ == 0) return invalid_argument("{}: calibration saw no rows of attention scores", name_);
  auto range = masked_score_range(lowest_row_max_, highest_, factor);
  if (!range.ok()) return with_context(std::move(range).error(), "{}", name_);
  return range;
}

}  // namespace tandem
