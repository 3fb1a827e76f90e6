#include "quant/feedback_rows.h"

#include <algorithm>
#include <cmath>

#include "linalg/multiply.h"

namespace tandem {

FeedbackRows::FeedbackRows(const ErrorFeedback& feedback, const FeedbackOptions& options, const ConstMatrix& values,
                           int64_t first, WeightMatrix& matrix, ThreadPool& pool)
    : feedback_(feedback),
      options_(options),
      grid_(feedback.grid(options)),
      rows_(values.rows),
      cols_(values.cols),
      first_(first),
      matrix_(matrix),
      pool_(pool),
      panels_(static_cast<size_t>(pool.size())) {
  scale_targets(values);
}

void FeedbackRows::run() {
  quantize();
  refine();
  for (int64_t r = 0; r < rows_; ++r) {
    if (is_zero(r)) continue;
    matrix_.scales[static_cast<size_t>(first_ + r)] =
        std::ldexp(scales_[static_cast<size_t>(r)], exponents_[static_cast<size_t>(r)]);
  }
}

// A row of zeros keeps what the scale search made of it.
bool FeedbackRows::is_zero(int64_t row) const {
  return matrix_.scales[static_cast<size_t>(first_ + row)] <= kSmallestQuantizable;
}

// Rows are scaled by powers of two, as the scale search does: squares of any weights stay finite.
void FeedbackRows::scale_targets(const ConstMatrix& values) {
  targets_.resize(static_cast<size_t>(rows_ * cols_));
  scales_.assign(static_cast<size_t>(rows_), 1.0f);
  exponents_.assign(static_cast<size_t>(rows_), 0);
  pool_.run(rows_, [&](int64_t r, int) {
    if (is_zero(r)) return;
    const float scale = matrix_.scales[static_cast<size_t>(first_ + r)];
    const int exponent = std::ilogb(scale);
    exponents_[static_cast<size_t>(r)] = exponent;
    scales_[static_cast<size_t>(r)] = std::ldexp(scale, -exponent);
    const float* row = values.data + r * values.stride;
    float* target = targets_.data() + r * cols_;
    for (int64_t k = 0; k < cols_; ++k) {
      target[k] = std::ldexp(row[feedback_.order_[static_cast<size_t>(k)]], -exponent);
    }
  });
}

int64_t FeedbackRows::panel_rows(int64_t first) const { return std::min(kFeedbackRows, rows_ - first); }

void FeedbackRows::for_panels(const Span& span, auto&& work) {
  pool_.run((rows_ + kFeedbackRows - 1) / kFeedbackRows, [&](int64_t index, int thread) {
    FeedbackPanel& panel = panels_[static_cast<size_t>(thread)];
    const int64_t first = index * kFeedbackRows;
    panel.resize(span.width, static_cast<int64_t>(span.groups));
    std::fill_n(panel.scales, kFeedbackRows, 1.0f);
    std::copy_n(scales_.data() + first, panel_rows(first), panel.scales);
    work(first, panel);
  });
}

void FeedbackRows::load(const ConstMatrix& from, const Span& span, int64_t first, std::vector<float>& to) const {
  const int64_t rows = panel_rows(first);
  if (rows < kFeedbackRows) std::ranges::fill(to, 0.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = from.data + (first + r) * from.stride + span.begin;
    for (int64_t k = 0; k < span.width; ++k) to[static_cast<size_t>(k * kFeedbackRows + r)] = row[k];
  }
}

void FeedbackRows::store(const std::vector<float>& from, const Span& span, int64_t first, const Matrix& to) const {
  for (int64_t r = 0; r < panel_rows(first); ++r) {
    float* row = to.row(first + r);
    for (int64_t k = 0; k < span.width; ++k) row[k] = from[static_cast<size_t>(k * kFeedbackRows + r)];
  }
}

void FeedbackRows::load_quantized(const Span& span, int64_t first, FeedbackPanel& panel) const {
  const int64_t rows = panel_rows(first);
  if (rows < kFeedbackRows) std::ranges::fill(panel.quantized, 0.0f);
  std::ranges::fill(panel.multipliers, 1.0f);
  for (int64_t r = 0; r < rows; ++r) {
    const int8_t* quantized = matrix_.quantized.data() + (first_ + first + r) * cols_;
    for (int64_t k = 0; k < span.width; ++k) {
      const auto column = static_cast<size_t>(feedback_.order_[static_cast<size_t>(span.begin + k)]);
      panel.quantized[static_cast<size_t>(k * kFeedbackRows + r)] = static_cast<float>(quantized[column]);
    }
    if (matrix_.multipliers.empty()) continue;
    const uint8_t* multipliers = matrix_.multipliers.data() + (first_ + first + r) * matrix_.blocks_per_row();
    for (size_t g = 0; g < span.groups; ++g) {
      panel.multipliers[g * kFeedbackRows + static_cast<size_t>(r)] =
          static_cast<float>(multipliers[feedback_.groups_[span.first_group + g].block]);
    }
  }
}

void FeedbackRows::store_quantized(const Span& span, int64_t first, const FeedbackPanel& panel) {
  for (int64_t r = 0; r < panel_rows(first); ++r) {
    if (is_zero(first + r)) continue;
    int8_t* quantized = matrix_.quantized.data() + (first_ + first + r) * cols_;
    for (int64_t k = 0; k < span.width; ++k) {
      quantized[feedback_.order_[static_cast<size_t>(span.begin + k)]] =
          static_cast<int8_t>(panel.quantized[static_cast<size_t>(k * kFeedbackRows + r)]);
    }
    if (matrix_.multipliers.empty()) continue;
    uint8_t* multipliers = matrix_.multipliers.data() + (first_ + first + r) * matrix_.blocks_per_row();
    for (size_t g = 0; g < span.groups; ++g) {
      multipliers[feedback_.groups_[span.first_group + g].block] =
          static_cast<uint8_t>(panel.multipliers[g * kFeedbackRows + static_cast<size_t>(r)]);
    }
  }
}

void FeedbackRows::quantize() {
  errors_.resize(targets_.size());
  gradient_ = targets_;
  const ConstMatrix feedback(feedback_.feedback_.data(), cols_, cols_);
  for (const Span& span : feedback_.spans_) {
    for_panels(span, [&](int64_t first, FeedbackPanel& panel) { quantize_panel(span, first, panel); });
    const int64_t end = span.begin + span.width;
    multiply_nn(view(errors_).block(0, span.begin, rows_, span.width),
                feedback.block(span.begin, end, span.width, cols_ - end),
                view(gradient_).block(0, end, rows_, cols_ - end), pool_, Store::kAdd);
  }
}

void FeedbackRows::quantize_panel(const Span& span, int64_t first, FeedbackPanel& panel) {
  load(view(targets_), span, first, panel.targets);
  load(view(gradient_), span, first, panel.shifted);
  for (size_t g = 0; g < span.groups; ++g) {
    quantize_group(feedback_.group(span.first_group + g), grid_, static_cast<int64_t>(g), panel);
  }
  store(panel.errors, span, first, view(errors_).block(0, span.begin, rows_, span.width));
  store_quantized(span, first, panel);
}

void FeedbackRows::refine() {
  if (options_.rounds == 0) return;
  const ConstMatrix moments(feedback_.moments_.data(), cols_, cols_);  // Symmetric: its rows are its columns.
  target_moments_.resize(targets_.size());
  multiply_nt(view(targets_), moments, view(target_moments_), pool_);
  multiply_nt(view(errors_), moments, view(gradient_), pool_);
  for (int round = 0; round < options_.rounds; ++round) {
    refine_scales();
    solve();
  }
  refine_scales();
}

void FeedbackRows::refine_scales() {
  pool_.run(rows_, [&](int64_t row, int) { refine_scale(row); });
}

// The best scale for the quantized values: z H w / z H z, where z is what they stand for at scale 1, so that the errors
// are w - scale z. What follows from another scale for errors and gradient is a mix with what scale 0 has.
void FeedbackRows::refine_scale(int64_t row) {
  if (is_zero(row)) return;
  const int64_t at = row * cols_;
  double product = 0.0, missing = 0.0;  // scale z H w, scale z H e
  for (int64_t k = at; k < at + cols_; ++k) {
    const auto i = static_cast<size_t>(k);
    const double value = double{targets_[i]} - double{errors_[i]};
    product += value * double{target_moments_[i]};
    missing += value * double{gradient_[i]};
  }
  const double ratio = product / (product - missing);
  if (!(product - missing > 0.0 && ratio > 0.5 && ratio < 2.0)) return;
  const float old = scales_[static_cast<size_t>(row)], scale = static_cast<float>(old * ratio);
  scales_[static_cast<size_t>(row)] = scale;
  const float keep = scale / old, rest = 1.0f - keep;
  for (int64_t k = at; k < at + cols_; ++k) {
    const auto i = static_cast<size_t>(k);
    errors_[i] = keep * errors_[i] + rest * targets_[i];
    gradient_[i] = keep * gradient_[i] + rest * target_moments_[i];
  }
}

void FeedbackRows::solve() {
  const ConstMatrix moments(feedback_.moments_.data(), cols_, cols_);
  std::vector<float> changed;
  for (const Span& span : feedback_.spans_) {
    changed.resize(static_cast<size_t>(rows_ * span.width));
    const Matrix changes(changed.data(), rows_, span.width);
    for_panels(span, [&](int64_t first, FeedbackPanel& panel) { solve_panel(span, first, changes, panel); });
    multiply_nn(changes, moments.block(span.begin, 0, span.width, cols_), view(gradient_), pool_, Store::kAdd);
  }
}

void FeedbackRows::solve_panel(const Span& span, int64_t first, const Matrix& changes, FeedbackPanel& panel) {
  load(view(targets_), span, first, panel.targets);
  load(view(errors_), span, first, panel.errors);
  load(view(gradient_), span, first, panel.gradient);
  load_quantized(span, first, panel);
  for (size_t g = 0; g < span.groups; ++g) {
    solve_group(feedback_.group(span.first_group + g), grid_, static_cast<int64_t>(g), panel);
  }
  store(panel.errors, span, first, view(errors_).block(0, span.begin, rows_, span.width));
  store(panel.changes, span, first, changes);
  store_quantized(span, first, panel);
}

}  // namespace tandem
