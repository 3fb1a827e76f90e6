// Error feedback for some rows of a matrix, all columns: spans of columns in panels (feedback_panel.h), and between
// them products of large matrices, which is where the time goes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_pool.h"
#include "linalg/matrix.h"
#include "quant/error_feedback.h"
#include "quant/feedback_panel.h"

namespace tandem {

class FeedbackRows {
 public:
  // `matrix` has the scales to start from; its rows from `first` on get the result.
  FeedbackRows(const ErrorFeedback& feedback, const FeedbackOptions& options, const ConstMatrix& values, int64_t first,
               WeightMatrix& matrix, ThreadPool& pool);
  void run();

 private:
  using Span = ErrorFeedback::Span;

  void scale_targets(const ConstMatrix& values);
  void quantize();
  void quantize_panel(const Span& span, int64_t first, FeedbackPanel& panel);
  void refine();
  void refine_scales();
  void refine_scale(int64_t row);
  void solve();
  void solve_panel(const Span& span, int64_t first, const Matrix& changes, FeedbackPanel& panel);
  void for_panels(const Span& span, auto&& work);
  void load(const ConstMatrix& from, const Span& span, int64_t first, std::vector<float>& to) const;
  void store(const std::vector<float>& from, const Span& span, int64_t first, const Matrix& to) const;
  void load_quantized(const Span& span, int64_t first, FeedbackPanel& panel) const;
  void store_quantized(const Span& span, int64_t first, const FeedbackPanel& panel);
  int64_t panel_rows(int64_t first) const;
  bool is_zero(int64_t row) const;
  Matrix view(std::vector<float>& numbers) const { return {numbers.data(), rows_, cols_}; }

  const ErrorFeedback& feedback_;
  const FeedbackOptions& options_;
  const FeedbackGrid grid_;
  const int64_t rows_, cols_, first_;
  WeightMatrix& matrix_;
  ThreadPool& pool_;
  std::vector<FeedbackPanel> panels_;  // One per thread.
  // [rows][columns in the order of quantization]; rows are scaled by powers of two.
  std::vector<float> targets_, errors_;
  std::vector<float> gradient_;        // H e; before that, targets with errors made up for.
  std::vector<float> target_moments_;  // H w
  std::vector<float> scales_;
  std::vector<int> exponents_;
};

}  // namespace tandem
