// Quantization with error feedback: GPTQ (Frantar et al. 2022) on the grids of int8 and LPBQ, in the form of QuIP (Chee
// et al. 2023), which needs no inverse.
//
// A weight's rounding error can be made up for by the weights of correlated inputs that are rounded after it. The
// second moments of a layer's inputs, H = sum of x x^T over calibration tokens, say which these are: the error of the
// layer's output is e H e^T for a row with the error e.
//
//   TANDEM_ASSIGN(const ErrorFeedback feedback, ErrorFeedback::create(moments, cols, spec, pool));
//   TANDEM_ASSIGN(WeightMatrix matrix, feedback.quantize(weights, rows, {}, pool));
//
// docs/quantization.md has the maths and the measurements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "quant/feedback_panel.h"
#include "quant/quantize.h"
#include "tandem/status.h"

namespace tandem {

struct FeedbackOptions {
  int candidates = 4;     // Multipliers to try when a block is reached.
  int rounds = 1;         // How often scales are refined and blocks solved again.
  int64_t first_row = 0;  // For error messages only.
};

class ErrorFeedback {
 public:
  // `moments` is [cols, cols], symmetric; the format is int8 or lpbq4. Moments that are not finite are refused. Inputs
  // that were never active, and moments of fewer tokens than columns, are what the damping is for: a share of the mean
  // of the diagonal is added to it.
  static constexpr float kDamping = 0.01f;
  static Result<ErrorFeedback> create(const float* moments, int64_t cols, const WeightSpec& spec, ThreadPool& pool);

  // Quantizes rows of `cols` floats. Rows are independent, and the result does not depend on the number of threads.
  // What quantize_matrix() refuses is refused here too.
  Result<WeightMatrix> quantize(const float* values, int64_t rows, const FeedbackOptions& options,
                                ThreadPool& pool) const;

 private:
  friend class FeedbackRows;

  ErrorFeedback(int64_t cols, const WeightSpec& spec) : cols_(cols), spec_(spec) {}
  void choose_order(const float* moments);
  std::vector<float> ordered(const float* moments) const;
  void scale_factors();
  void add_groups();
  void add_group(int64_t begin, int64_t width, int64_t block);
  FeedbackGrid grid(const FeedbackOptions& options) const;
  FeedbackGroup group(size_t index) const;

  struct Group {
    int64_t begin = 0;  // In its span.
    int64_t width = 0;
    int64_t block = 0;  // The block's number in the row (LPBQ).
    std::vector<float> feedback, pivots, moments, own_inverse, own_feedback, own_pivots;
  };
  struct Span {
    int64_t begin = 0, width = 0;
    size_t first_group = 0, groups = 0;
  };
  int64_t cols_ = 0;
  WeightSpec spec_;
  std::vector<int32_t> order_;   // The columns as they are quantized.
  std::vector<float> diagonal_;  // Of the moments, by column.
  std::vector<float> moments_;   // H, relative to its mean diagonal and damped. All that follows is in this order.
  std::vector<float> feedback_;  // U; what is not above the diagonal is unspecified.
  std::vector<float> pivots_;    // D
  std::vector<Group> groups_;
  std::vector<Span> spans_;
};

// targets += g (H + damping)^-1 for rows of g: the weights that fit best where a layer sees other inputs than it was
// trained on, g being the moments of what is missing with the inputs. `g` is overwritten. The fewer tokens the moments
// are of, the more of g is chance, and the more the correction is damped.
Status correct_targets(const float* moments, int64_t cols, int64_t tokens, float* g, int64_t rows, float* targets,
                       ThreadPool& pool);

// The sum of e H e^T over the rows of e.
double output_error(const float* errors, int64_t rows, const float* moments, int64_t cols, ThreadPool& pool);

}  // namespace tandem
