#include "quant/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "linalg/factor.h"
#include "linalg/multiply.h"

namespace tandem {
namespace {

constexpr int64_t kInt8Group = 32;  // Columns at a time; int8 has no blocks.
constexpr float kMostDamping = 1.0f;
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

// A matrix being quantized.
struct ErrorFeedback::Task {
  const float* values = nullptr;
  int64_t rows = 0;
  WeightMatrix& matrix;  // Has the scales to start from.
};

Result<ErrorFeedback> ErrorFeedback::create(const float* moments, int64_t cols, const WeightSpec& spec,
                                            ThreadPool& pool) {
  if (!is_quantized(spec.format)) return internal_error("error feedback is for integer formats");
  ErrorFeedback feedback(cols, spec);
  TANDEM_ASSIGN(const double mean, usable_mean(moments, cols));
  feedback.choose_order(moments);
  std::vector<float> h = feedback.ordered(moments);
  for (float& value : h) value = static_cast<float>(value / mean);
  std::vector<float> factor;
  TANDEM_TRY(factor_damped(h, cols, factor, pool));
  for (int64_t i = 0; i < cols; ++i) h[static_cast<size_t>(i * cols + i)] += kDamping;
  const int64_t width = spec.format == WeightFormat::kLpbq4 ? spec.block : kInt8Group;
  for (int64_t begin = 0; begin < cols;) {
    // The short last block of a row is anywhere in the order.
    const int64_t block = feedback.order_[static_cast<size_t>(begin)] / width;
    const int64_t whole =
        spec.format == WeightFormat::kLpbq4 ? std::min(width, cols - block * width) : std::min(width, cols - begin);
    feedback.add_group(h, factor, begin, whole);
    feedback.groups_.back().block = block;
    begin += whole;
  }
  return feedback;
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

void ErrorFeedback::add_group(const std::vector<float>& moments, const std::vector<float>& factor, int64_t begin,
                              int64_t width) {
  Group g;
  g.begin = begin;
  g.width = width;
  const auto at = [&](int64_t i, int64_t j) { return static_cast<size_t>(i * cols_ + j); };
  const auto size = [](int64_t rows, int64_t columns) { return static_cast<size_t>(rows * columns); };
  g.feedback.resize(size(begin + width, width));
  g.moments.resize(size(cols_, width));
  g.pivots.resize(static_cast<size_t>(width));
  for (int64_t j = 0; j < width; ++j) {
    const float pivot = factor[at(begin + j, begin + j)];
    g.pivots[static_cast<size_t>(j)] = pivot * pivot;
  }
  // Row by row, as they are in memory.
  for (int64_t i = 0; i < cols_; ++i) {
    std::copy_n(moments.data() + at(i, begin), width, g.moments.data() + i * width);
  }
  for (int64_t i = 0; i < begin + width; ++i) {
    for (int64_t j = std::max<int64_t>(i - begin + 1, 0); j < width; ++j) {
      g.feedback[static_cast<size_t>(i * width + j)] = factor[at(i, begin + j)] / factor[at(begin + j, begin + j)];
    }
  }
  std::vector<double> own(size(width, width)), r;
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t j = 0; j < width; ++j)
      own[static_cast<size_t>(i * width + j)] = double{moments[at(begin + i, begin + j)]};
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
  const Task task{values, rows, matrix};
  const FeedbackGrid values_of_format = grid(options);
  const int64_t panels = (rows + kFeedbackRows - 1) / kFeedbackRows;
  std::vector<FeedbackPanel> scratch(static_cast<size_t>(pool.size()));
  std::vector<std::vector<float>> products(scratch.size());
  pool.run(panels, [&](int64_t index, int thread) {
    FeedbackPanel& panel = scratch[static_cast<size_t>(thread)];
    panel.resize(cols_, static_cast<int64_t>(groups_.size()));
    fill_panel(task, index * kFeedbackRows, panel);
    for (size_t g = 0; g < groups_.size(); ++g) {
      quantize_group(group(g), values_of_format, static_cast<int64_t>(g), panel);
    }
    refine(values_of_format, options.rounds, products[static_cast<size_t>(thread)], panel);
    write_panel(task, index * kFeedbackRows, panel);
  });
  return matrix;
}

// Rows are scaled by powers of two, as the scale search does: squares of any weights stay finite.
void ErrorFeedback::fill_panel(const Task& task, int64_t first, FeedbackPanel& panel) const {
  std::ranges::fill(panel.targets, 0.0f);
  for (int64_t r = 0; r < kFeedbackRows; ++r) {
    panel.scales[r] = 1.0f;
    if (first + r >= task.rows) continue;
    const float* row = task.values + (first + r) * cols_;
    const float scale = task.matrix.scales[static_cast<size_t>(first + r)];
    if (scale <= kSmallestQuantizable) continue;  // A row of zeros.
    const int exponent = std::ilogb(scale);
    panel.scales[r] = std::ldexp(scale, -exponent);
    for (int64_t k = 0; k < cols_; ++k) {
      panel.targets[static_cast<size_t>(k * kFeedbackRows + r)] =
          std::ldexp(row[order_[static_cast<size_t>(k)]], -exponent);
    }
  }
}

void ErrorFeedback::refine(const FeedbackGrid& grid, int rounds, std::vector<float>& products,
                           FeedbackPanel& panel) const {
  if (rounds == 0) return;
  for (int round = 0; round < rounds; ++round) {
    refine_scales(products, panel);
    for (size_t g = 0; g < groups_.size(); ++g) solve_group(group(g), grid, cols_, static_cast<int64_t>(g), panel);
  }
  refine_scales(products, panel);
}

// The best scale for the quantized values: z H w / z H z, where z is what they stand for at scale 1.
void ErrorFeedback::refine_scales(std::vector<float>& products, FeedbackPanel& panel) const {
  products.resize(panel.targets.size());
  for (size_t g = 0; g < groups_.size(); ++g) {
    const float* multipliers = panel.multipliers.data() + g * kFeedbackRows;
    for (int64_t k = groups_[g].begin; k < groups_[g].begin + groups_[g].width; ++k) {
      for (int64_t r = 0; r < kFeedbackRows; ++r) {
        const auto at = static_cast<size_t>(k * kFeedbackRows + r);
        products[at] = multipliers[r] * panel.quantized[at];
      }
    }
  }
  double product[kFeedbackRows] = {}, square[kFeedbackRows] = {};
  for (size_t g = 0; g < groups_.size(); ++g) add_scale_sums(group(g), cols_, products, panel, product, square);
  for (int64_t r = 0; r < kFeedbackRows; ++r) {
    const auto scale = static_cast<float>(product[r] / square[r]);
    if (square[r] > 0.0 && scale > 0.5f * panel.scales[r] && scale < 2.0f * panel.scales[r]) panel.scales[r] = scale;
  }
  for (size_t at = 0; at < products.size(); ++at) {
    panel.errors[at] = panel.targets[at] - panel.scales[at % kFeedbackRows] * products[at];
  }
}

void ErrorFeedback::write_panel(const Task& task, int64_t first, const FeedbackPanel& panel) const {
  WeightMatrix& matrix = task.matrix;
  const int64_t rows = std::min(kFeedbackRows, task.rows - first);
  for (int64_t r = 0; r < rows; ++r) {
    float& scale = matrix.scales[static_cast<size_t>(first + r)];
    if (scale <= kSmallestQuantizable) continue;
    scale = std::ldexp(panel.scales[r], std::ilogb(scale));
    int8_t* quantized = matrix.quantized.data() + (first + r) * cols_;
    for (int64_t k = 0; k < cols_; ++k) {
      quantized[order_[static_cast<size_t>(k)]] =
          static_cast<int8_t>(panel.quantized[static_cast<size_t>(k * kFeedbackRows + r)]);
    }
    if (matrix.multipliers.empty()) continue;
    uint8_t* multipliers = matrix.multipliers.data() + (first + r) * matrix.blocks_per_row();
    for (size_t g = 0; g < groups_.size(); ++g) {
      multipliers[groups_[g].block] =
          static_cast<uint8_t>(panel.multipliers[g * kFeedbackRows + static_cast<size_t>(r)]);
    }
  }
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
