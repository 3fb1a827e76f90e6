#include "quant/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "linalg/factor.h"
#include "linalg/multiply.h"
#include "quant/feedback_rows.h"

namespace tandem {
namespace {

constexpr int64_t kInt8Group = 32;  // Columns at a time; int8 has no blocks.
constexpr float kMostDamping = 1.0f;
// Columns that are worked on row by row before what they change elsewhere is computed as one product of matrices: as
// many terms as linalg/ sums in registers.
constexpr int64_t kSpanColumns = 256;
// Enough for products of matrices to be fast; more would take memory, four floats for each weight.
constexpr int64_t kRowsAtATime = 1024;
// Of corrections, times columns over tokens; docs/quantization.md has the measurements.
constexpr float kCorrectionDamping = 12.0f;

double mean_diagonal(const float* moments, int64_t cols) {
  double sum = 0.0;
  for (int64_t i = 0; i < cols; ++i) sum += double{moments[i * cols + i]};
  return sum / static_cast<double>(cols);
}

// h / mean + damping I, factored in place; more damping where rounding has made it indefinite.
Status factor_damped(const std::vector<float>& h, int64_t cols, std::vector<float>& factor, ThreadPool& pool) {
  for (float damping = ErrorFeedback::kDamping; damping <= kMostDamping; damping *= 10.0f) {
    factor = h;
    for (int64_t i = 0; i < cols; ++i) factor[static_cast<size_t>(i * cols + i)] += damping;
    if (factor_upper(Matrix(factor.data(), cols, cols), pool) < 0) return ok_status();
  }
  return corrupt("the second moments of a layer's inputs cannot be factored");
}

Result<double> usable_mean(const float* moments, int64_t cols) {
  const double mean = mean_diagonal(moments, cols);
  if (!std::isfinite(mean)) return corrupt("a layer's inputs are not finite over the calibration samples");
  return mean > 0.0 ? mean : 1.0;
}

// The reverse Cholesky factor of a small matrix, in doubles; h is damped, hence positive definite.
void factor_small(const std::vector<double>& h, int64_t n, std::vector<double>& r) {
  r.assign(static_cast<size_t>(n * n), 0.0);
  for (int64_t j = n - 1; j >= 0; --j) {
    for (int64_t i = j; i >= 0; --i) {
      double sum = h[static_cast<size_t>(i * n + j)];
      for (int64_t k = j + 1; k < n; ++k) sum -= r[static_cast<size_t>(i * n + k)] * r[static_cast<size_t>(j * n + k)];
      const auto at = static_cast<size_t>(i * n + j);
      r[at] = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / r[static_cast<size_t>(j * n + j)];
    }
  }
}

// (r r^T)^-1 column by column.
std::vector<float> inverse_of(const std::vector<double>& r, int64_t n) {
  std::vector<float> inverse(static_cast<size_t>(n * n));
  std::vector<double> x(static_cast<size_t>(n));
  const auto at = [&](int64_t i, int64_t j) { return r[static_cast<size_t>(i * n + j)]; };
  for (int64_t column = 0; column < n; ++column) {
    for (int64_t i = 0; i < n; ++i) x[static_cast<size_t>(i)] = i == column ? 1.0 : 0.0;
    for (int64_t i = n - 1; i >= 0; --i) {  // r y = unit
      for (int64_t k = i + 1; k < n; ++k) x[static_cast<size_t>(i)] -= at(i, k) * x[static_cast<size_t>(k)];
      x[static_cast<size_t>(i)] /= at(i, i);
    }
    for (int64_t i = 0; i < n; ++i) {  // r^T x = y
      for (int64_t k = 0; k < i; ++k) x[static_cast<size_t>(i)] -= at(k, i) * x[static_cast<size_t>(k)];
      x[static_cast<size_t>(i)] /= at(i, i);
    }
    for (int64_t i = 0; i < n; ++i)
      inverse[static_cast<size_t>(i * n + column)] = static_cast<float>(x[static_cast<size_t>(i)]);
  }
  return inverse;
}

}  // namespace

Result<ErrorFeedback> ErrorFeedback::create(const float* moments, int64_t cols, const WeightSpec& spec,
                                            ThreadPool& pool) {
  if (!is_quantized(spec.format)) return internal_error("error feedback is for integer formats");
  ErrorFeedback feedback(cols, spec);
  TANDEM_ASSIGN(const double mean, usable_mean(moments, cols));
  feedback.choose_order(moments);
  feedback.moments_ = feedback.ordered(moments);
  for (float& value : feedback.moments_) value = static_cast<float>(value / mean);
  TANDEM_TRY(factor_damped(feedback.moments_, cols, feedback.feedback_, pool));
  for (int64_t i = 0; i < cols; ++i) feedback.moments_[static_cast<size_t>(i * cols + i)] += kDamping;
  feedback.scale_factors();
  feedback.add_groups();
  return feedback;
}

// R R^T = (I + U) D (I + U)^T: the columns of R, divided by their pivots, are those of I + U.
void ErrorFeedback::scale_factors() {
  pivots_.resize(static_cast<size_t>(cols_));
  std::vector<float> inverse(static_cast<size_t>(cols_));
  for (int64_t j = 0; j < cols_; ++j) {
    const float pivot = feedback_[static_cast<size_t>(j * cols_ + j)];
    pivots_[static_cast<size_t>(j)] = pivot * pivot;
    inverse[static_cast<size_t>(j)] = 1.0f / pivot;
  }
  for (int64_t i = 0; i < cols_; ++i) {
    float* row = feedback_.data() + i * cols_;
    for (int64_t j = i + 1; j < cols_; ++j) row[j] *= inverse[static_cast<size_t>(j)];
  }
}

void ErrorFeedback::add_groups() {
  const bool has_blocks = spec_.format == WeightFormat::kLpbq4;
  const int64_t width = has_blocks ? spec_.block : kInt8Group;
  for (int64_t begin = 0; begin < cols_;) {
    // The short last block of a row is anywhere in the order.
    const int64_t block = order_[static_cast<size_t>(begin)] / width;
    const int64_t whole = std::min(width, has_blocks ? cols_ - block * width : cols_ - begin);
    if (spans_.empty() || spans_.back().width + whole > kSpanColumns) spans_.push_back({begin, 0, groups_.size(), 0});
    add_group(begin, whole, block);
    spans_.back().width += whole;
    ++spans_.back().groups;
    begin += whole;
  }
}

// Columns with large inputs first, while most others can still make up for their errors. LPBQ's blocks stay together.
void ErrorFeedback::choose_order(const float* moments) {
  diagonal_.resize(static_cast<size_t>(cols_));
  for (int64_t i = 0; i < cols_; ++i) diagonal_[static_cast<size_t>(i)] = std::max(moments[i * cols_ + i], 0.0f);
  const int64_t width = spec_.format == WeightFormat::kLpbq4 ? spec_.block : cols_;
  std::vector<double> sums(static_cast<size_t>((cols_ + width - 1) / width));
  for (int64_t i = 0; i < cols_; ++i) sums[static_cast<size_t>(i / width)] += double{diagonal_[static_cast<size_t>(i)]};
  order_.resize(static_cast<size_t>(cols_));
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::stable_sort(order_, [&](int32_t a, int32_t b) {
    const int64_t block_a = a / width, block_b = b / width;
    if (block_a == block_b) return diagonal_[static_cast<size_t>(a)] > diagonal_[static_cast<size_t>(b)];
    const double sum_a = sums[static_cast<size_t>(block_a)], sum_b = sums[static_cast<size_t>(block_b)];
    return sum_a != sum_b ? sum_a > sum_b : block_a < block_b;
  });
}

std::vector<float> ErrorFeedback::ordered(const float* moments) const {
  std::vector<float> h(static_cast<size_t>(cols_ * cols_));
  for (int64_t i = 0; i < cols_; ++i) {
    const float* row = moments + int64_t{order_[static_cast<size_t>(i)]} * cols_;
    for (int64_t j = 0; j < cols_; ++j) h[static_cast<size_t>(i * cols_ + j)] = row[order_[static_cast<size_t>(j)]];
  }
  return h;
}

void ErrorFeedback::add_group(int64_t begin, int64_t width, int64_t block) {
  const int64_t span = spans_.back().begin;
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * cols_ + j); };
  const auto size = [](int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); };
  Group g;
  g.begin = begin - span;
  g.width = width;
  g.block = block;
  g.pivots.assign(pivots_.begin() + begin, pivots_.begin() + begin + width);
  g.feedback.resize(size(g.begin + width, width));
  g.moments.resize(size(g.begin, width));
  for (int64_t i = 0; i < g.begin; ++i) {
    std::copy_n(moments_.data() + at(span + i, begin), width, g.moments.data() + i * width);
  }
  for (int64_t i = 0; i < g.begin + width; ++i) {
    const int64_t first = std::max<int64_t>(i - g.begin + 1, 0);
    for (int64_t j = first; j < width; ++j)
      g.feedback[static_cast<size_t>(i * width + j)] = feedback_[at(span + i, begin + j)];
  }
  std::vector<double> own(size(width, width)), r;
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < width; ++j)
      own[static_cast<size_t>(i * width + j)] = double{moments_[at(begin + i, begin + j)]};
  }
  factor_small(own, width, r);
  g.own_inverse = inverse_of(r, width);
  g.own_feedback.resize(own.size());
  g.own_pivots.resize(static_cast<size_t>(width));
  for (int64_t j = 0; j < width; ++j) {
    const double pivot = r[static_cast<size_t>(j * width + j)];
    g.own_pivots[static_cast<size_t>(j)] = static_cast<float>(pivot * pivot);
    for (int64_t i = 0; i < j; ++i) {
      g.own_feedback[static_cast<size_t>(i * width + j)] =
          static_cast<float>(r[static_cast<size_t>(i * width + j)] / pivot);
    }
  }
  groups_.push_back(std::move(g));
}

FeedbackGroup ErrorFeedback::group(size_t index) const {
  const Group& g = groups_[index];
  return {g.begin,
          g.width,
          g.feedback.data(),
          g.pivots.data(),
          g.moments.data(),
          g.own_inverse.data(),
          g.own_feedback.data(),
          g.own_pivots.data()};
}

FeedbackGrid ErrorFeedback::grid(const FeedbackOptions& options) const {
  if (spec_.format == WeightFormat::kI8) return {-127.0f, 127.0f, 1.0f, 1};
  return {-8.0f, 7.0f, 16.0f, options.candidates};
}

Result<WeightMatrix> ErrorFeedback::quantize(const float* values, int64_t rows, const FeedbackOptions& options,
                                             ThreadPool& pool) const {
  TANDEM_ASSIGN(WeightMatrix matrix, quantize_matrix(values, rows, cols_, spec_, pool,
                                                     {.importance = diagonal_, .first_row = options.first_row}));
  for (int64_t first = 0; first < rows; first += kRowsAtATime) {
    const int64_t count = std::min(kRowsAtATime, rows - first);
    FeedbackRows(*this, options, {values + first * cols_, count, cols_}, first, matrix, pool).run();
  }
  return matrix;
}

Status correct_targets(const float* moments, int64_t cols, int64_t tokens, float* g, int64_t rows, float* targets,
                       ThreadPool& pool) {
  TANDEM_ASSIGN(const double mean, usable_mean(moments, cols));
  std::vector<float> h(static_cast<size_t>(cols * cols)), factor;
  for (size_t i = 0; i < h.size(); ++i) h[i] = static_cast<float>(moments[i] / mean);
  const float chance = kCorrectionDamping * static_cast<float>(cols) / static_cast<float>(std::max<int64_t>(tokens, 1));
  for (int64_t i = 0; i < cols; ++i) h[static_cast<size_t>(i * cols + i)] += chance;
  TANDEM_TRY(factor_damped(h, cols, factor, pool));
  solve_upper(ConstMatrix(factor.data(), cols, cols), Matrix(g, rows, cols), pool);
  for (int64_t i = 0; i < rows * cols; ++i) {
    const auto shift = static_cast<float>(g[i] / mean);
    if (std::isfinite(shift)) targets[i] += shift;
  }
  return ok_status();
}

double output_error(const float* errors, int64_t rows, const float* moments, int64_t cols, ThreadPool& pool) {
  std::vector<float> product(static_cast<size_t>(rows * cols));
  // Symmetric: its rows are its columns.
  multiply_nt(ConstMatrix(errors, rows, cols), ConstMatrix(moments, cols, cols), Matrix(product.data(), rows, cols),
              pool);
  double sum = 0.0;
  for (size_t i = 0; i < product.size(); ++i) sum += double{product[i]} * double{errors[i]};
  return sum;
}

}  // namespace tandem
