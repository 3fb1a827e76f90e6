// The range of attention scores once the mask is added to them.
//
// A masked score is meant to be minus infinity, and the lowest value of an encoding must be low enough for that.
// softmax(factor * x) tells how low: a score 20 / factor below the largest of its row has less than e^-20 = 2e-9 of
// that one's weight, far below the 2^-17 that rounds to zero in a 16-bit probability. So nothing below (lowest row
// maximum - 20 / factor) ever matters, and masked scores may saturate there.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quant/observer.h"
#include "tandem/status.h"

namespace tandem {

// `lowest_row_max` is the smallest of all rows' largest visible scores, `highest` the largest score of all.
Result<Interval> masked_score_range(float lowest_row_max, float highest, float factor);

// Collects both from scores before the mask is added.
class RowMaxObserver {
 public:
  // The name is for error messages.
  explicit RowMaxObserver(std::string name = {});

  // The visible scores of one row. A row without any (padding) is ignored.
  void add_row(std::span<const float> visible_scores);
  void merge(const RowMaxObserver& other);

  uint64_t rows() const { return rows_; }
  float lowest_row_max() const { return lowest_row_max_; }  // 0 while there are no rows.
  float highest() const { return highest_; }

  // An error that names the tensor if there were no rows, or some score was not finite.
  Result<Interval> range(float factor) const;

 private:
  std::string name_;
  uint64_t rows_ = 0;
  uint64_t broken_rows_ = 0;
  float lowest_row_max_ = 0.0f;
  float highest_ = 0.0f;
};

}  // namespace tandem
