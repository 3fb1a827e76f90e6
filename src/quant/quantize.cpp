#include "quant/quantize.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/half.h"
#include "quant/scale_search.h"

namespace tandem {
namespace {

// More elements than fit any machine; keeps all products of sizes far from overflow.
constexpr uint64_t kMaxElements = uint64_t{1} << 44;
// Elements per task of the thread pool: long compared to starting it, short compared to a matrix.
constexpr int64_t kTaskElements = 1 << 16;

// The largest magnitude that a format can hold.
float largest_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32: return std::numeric_limits<float>::max();
    case WeightFormat::kF16: return 65504.0f;
    case WeightFormat::kBF16: return std::bit_cast<float>(0x7f7f0000u);
    case WeightFormat::kI8:
    case WeightFormat::kLpbq4: return kLargestQuantizable;
  }
  return 0;
}

// True if all are finite and none is larger than `limit`. NaN and infinity have the largest bit patterns.
bool all_within(const float* values, int64_t count, float limit) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(values[i]) & 0x7fffffffu);
  }
  return largest <= std::bit_cast<uint32_t>(limit);
}

Error refuse_value(const float* row, int64_t cols, int64_t row_number, WeightFormat format) {
  const float limit = largest_of(format);
  int64_t c = 0;
  while (c < cols - 1 && std::fabs(row[c]) <= limit) ++c;
  if (!std::isfinite(row[c])) {
    return corrupt("the weight at row {}, column {} is {}; a checkpoint with such weights cannot be quantized",
                   row_number, c, row[c]);
  }
  const char* advice = format == WeightFormat::kF16 ? "bf16 or fp32" : "fp32";
  return invalid_argument("the weight at row {}, column {} is {}, beyond {}, the largest that {} holds; use {} for it",
                          row_number, c, row[c], limit, weight_format_name(format), advice);
}

Status check_arguments(const float* values, int64_t rows, int64_t cols, const WeightSpec& spec,
                       std::span<const float> importance) {
  if (rows <= 0 || cols <= 0) return invalid_argument("cannot quantize a matrix of {} x {}", rows, cols);
  const auto count = checked_mul(static_cast<uint64_t>(rows), static_cast<uint64_t>(cols));
  if (!count || *count > kMaxElements) return invalid_argument("a matrix of {} x {} is too large", rows, cols);
  if (values == nullptr) return invalid_argument("no values to quantize");
  if (static_cast<int>(spec.format) >= kWeightFormatCount) {
    return invalid_argument("unknown weight format {}", static_cast<int>(spec.format));
  }
  if (spec.format == WeightFormat::kLpbq4 && spec.block != 16 && spec.block != 32 && spec.block != 64) {
    return invalid_argument("lpbq4 has blocks of 16, 32 or 64, not {}", spec.block);
  }
  if (importance.empty()) return ok_status();
  if (importance.size() != static_cast<size_t>(cols)) {
    return invalid_argument("{} importances for {} columns", importance.size(), cols);
  }
  for (size_t c = 0; c < importance.size(); ++c) {
    if (!(importance[c] >= 0) || !std::isfinite(importance[c])) {
      return invalid_argument("the importance of column {} is {}; it should be finite and not negative", c,
                              importance[c]);
    }
  }
  return ok_status();
}

// Mean 1, and a floor: an input that was never active in calibration still has to be about right.
std::vector<float> normalized_importance(std::span<const float> importance) {
  constexpr float kFloor = 1e-3f;
  double sum = 0;
  for (const float value : importance) sum += value;
  if (sum == 0) return {};
  const double factor = static_cast<double>(importance.size()) / sum;
  std::vector<float> normalized(importance.size());
  for (size_t c = 0; c < importance.size(); ++c) {
    normalized[c] = std::max(static_cast<float>(importance[c] * factor), kFloor);
  }
  return normalized;
}

void convert_rows(const float* values, int64_t begin, int64_t count, WeightMatrix& matrix) {
  switch (matrix.format) {
    case WeightFormat::kF32: std::copy_n(values + begin, count, matrix.f32.begin() + begin); return;
    case WeightFormat::kF16:
      for (int64_t i = begin; i < begin + count; ++i) matrix.half[static_cast<size_t>(i)] = f16_from_f32(values[i]);
      return;
    case WeightFormat::kBF16:
      for (int64_t i = begin; i < begin + count; ++i) matrix.half[static_cast<size_t>(i)] = bf16_from_f32(values[i]);
      return;
    case WeightFormat::kI8:
    case WeightFormat::kLpbq4: return;
  }
}

void search_rows(const float* values, int64_t begin, int64_t count, const float* importance, SearchScratch& scratch,
                 WeightMatrix& matrix) {
  for (int64_t row = begin; row < begin + count; row += kSearchLanes) {
    SearchTask task;
    task.values = values + row * matrix.cols;
    task.rows = std::min<int64_t>(kSearchLanes, begin + count - row);
    task.cols = matrix.cols;
    task.block = matrix.block;
    task.importance = importance;
    task.quantized = matrix.quantized.data() + row * matrix.cols;
    task.scales = matrix.scales.data() + row;
    if (matrix.format == WeightFormat::kI8) {
      search_int8(task, scratch);
    } else {
      task.multipliers = matrix.multipliers.data() + row * matrix.blocks_per_row();
      search_lpbq4(task, scratch);
    }
  }
}

}  // namespace

Result<WeightMatrix> quantize_matrix(const float* values, int64_t rows, int64_t cols, const WeightSpec& spec,
                                     ThreadPool& pool, const QuantizeOptions& options) {
  TANDEM_TRY(check_arguments(values, rows, cols, spec, options.importance));

  WeightMatrix matrix;
  matrix.format = spec.format;
  matrix.rows = rows;
  matrix.cols = cols;
  const size_t count = static_cast<size_t>(rows * cols);
  if (spec.format == WeightFormat::kF32) matrix.f32.resize(count);
  if (spec.format == WeightFormat::kF16 || spec.format == WeightFormat::kBF16) matrix.half.resize(count);
  if (is_quantized(spec.format)) {
    matrix.quantized.resize(count);
    matrix.scales.resize(static_cast<size_t>(rows));
  }
  if (spec.format == WeightFormat::kLpbq4) {
    matrix.block = spec.block;
    matrix.multipliers.resize(static_cast<size_t>(rows * matrix.blocks_per_row()));
  }
  const std::vector<float> importance = normalized_importance(options.importance);
  const float* importance_data = importance.empty() ? nullptr : importance.data();

  const float limit = largest_of(spec.format);
  const int64_t task_rows = std::max<int64_t>(1, kTaskElements / cols / kSearchLanes) * kSearchLanes;
  const int64_t tasks = (rows + task_rows - 1) / task_rows;
  std::vector<SearchScratch> scratch(static_cast<size_t>(pool.size()));
  std::atomic<int64_t> first_bad_task{tasks};
  pool.run(tasks, [&](int64_t task, int thread) {
    const int64_t begin = task * task_rows;
    const int64_t some_rows = std::min(task_rows, rows - begin);
    if (!all_within(values + begin * cols, some_rows * cols, limit)) {
      int64_t first = first_bad_task.load();
      while (task < first && !first_bad_task.compare_exchange_weak(first, task)) {
      }
      return;
    }
    if (is_quantized(spec.format)) {
      search_rows(values, begin, some_rows, importance_data, scratch[static_cast<size_t>(thread)], matrix);
    } else {
      convert_rows(values, begin * cols, some_rows * cols, matrix);
    }
  });
  if (first_bad_task.load() < tasks) {
    int64_t row = first_bad_task.load() * task_rows;
    while (row < rows - 1 && all_within(values + row * cols, cols, limit)) ++row;
    return refuse_value(values + row * cols, cols, options.first_row + row, spec.format);
  }
  return matrix;
}

double bits_per_weight(const WeightSpec& spec) {
  switch (spec.format) {
    case WeightFormat::kF32: return 32;
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return 16;
    case WeightFormat::kI8: return 8;
    case WeightFormat::kLpbq4: return 4 + (spec.block > 0 ? 8.0 / spec.block : 0);
  }
  return 0;
}

void QuantizationReport::add(const QuantizationReport& other) {
  count += other.count;
  signal += other.signal;
  noise += other.noise;
  max_error = std::max(max_error, other.max_error);
}

double QuantizationReport::sqnr_db() const {
  if (noise == 0) return std::numeric_limits<double>::infinity();
  if (signal == 0) return -std::numeric_limits<double>::infinity();
  return 10 * std::log10(signal / noise);
}

QuantizationReport quantization_report(const float* values, const WeightMatrix& matrix) {
  QuantizationReport report;
  report.count = matrix.rows * matrix.cols;
  std::vector<float> row(static_cast<size_t>(matrix.cols));
  for (int64_t r = 0; r < matrix.rows; ++r) {
    matrix.dequantize_row(r, row.data());
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const double value = values[r * matrix.cols + c];
      const double difference = value - row[static_cast<size_t>(c)];
      report.signal += value * value;
      report.noise += difference * difference;
      report.max_error = std::max(report.max_error, std::fabs(difference));
    }
  }
  return report;
}

double sqnr_db(const float* values, const WeightMatrix& matrix) {
  return quantization_report(values, matrix).sqnr_db();
}

}  // namespace tandem
