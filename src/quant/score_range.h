// The range of attention scores once the mask is added to them.
//
// A masked score is meant to be minus infinity, and what an encoding's lowest code stands for must be low enough for
// that. How low, softmax(factor * x) says: a score that lies 20 / factor below the largest of its row has less than
// e^-20 = 2e-9 of that one's weight, far below the 2^-17 that rounds to nothing in a 16-bit probability. So nothing
// below (lowest row maximum - 20 / factor) ever matters, and the masked scores may saturate there.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "quant/observer.h"
#include "tandem/status.h"

namespace tandem {

// `lowest_row_max` is the smallest among the largest visible scores of all rows, `highest` the largest score of all.
Result<Interval> masked_score_range(float lowest_row_max, float highest, float factor);

// Collects both from scores before the mask.
class RowMaxObserver {
 public:
  // The name is for error messages.
  explicit RowMaxObserver(std::string name = {});

  // The scores of one row that the mask lets through. A row without any (padding) says nothing.
  void add_row(std::span<const float> visible_scores);
  void merge(const RowMaxObserver& other);

  uint64_t rows() const { return rows_; }
  float lowest_row_max() const { return lowest_row_max_; }  // 0 while there are no rows.
  float highest() const { return highest_; }

  // An error that names the tensor if there were no rows, or not all scores were finite.
  Result<Interval> range(float factor) const;

 private:
  std::string name_;
  uint64_t rows_ = 0;
  uint64_t broken_rows_ = 0;
  float lowest_row_max_ = 0.0f;
  float highest_ = 0.0f;
};

}  // namespace tandem
