// The plain quantizers that the searches are compared with, and matrices to test on.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "numerics/weight_matrix.h"

namespace tandem::testing {

struct Matrix {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<float> values;
};

enum class Shape { kGaussian, kHeavyTails, kOneSided, kOutlierColumns, kMixedBlocks };

inline Matrix random_matrix(int64_t rows, int64_t cols, Shape shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  std::student_t_distribution<float> heavy(3.0f);
  Matrix matrix{rows, cols, std::vector<float>(static_cast<size_t>(rows * cols))};
  for (int64_t i = 0; i < rows * cols; ++i) {
    const int64_t c = i % cols;
    float value = normal(random);
    if (shape == Shape::kHeavyTails) value = 0.02f * heavy(random);
    if (shape == Shape::kOneSided) value = -std::fabs(value) + 0.005f;
    if (shape == Shape::kOutlierColumns && c % 50 == 7) value *= 30.0f;
    if (shape == Shape::kMixedBlocks) value *= std::exp2(static_cast<float>((c / 16) % 7) - 3.0f);
    matrix.values[static_cast<size_t>(i)] = value;
  }
  return matrix;
}

// LPBQ by the largest magnitudes: block scale max|w| / 7, channel scale a 16th of the largest, nearest multiplier.
inline WeightMatrix nearest_lpbq4(const Matrix& matrix, int block) {
  WeightMatrix out;
  out.format = WeightFormat::kLpbq4;
  out.rows = matrix.rows;
  out.cols = matrix.cols;
  out.block = block;
  const int64_t blocks = out.blocks_per_row();
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const float* row = matrix.values.data() + r * matrix.cols;
    std::vector<float> wanted(static_cast<size_t>(blocks), 0.0f);
    for (int64_t c = 0; c < matrix.cols; ++c) {
      wanted[static_cast<size_t>(c / block)] =
          std::max(wanted[static_cast<size_t>(c / block)], std::fabs(row[c]) / 7.0f);
    }
    const float scale = std::max(*std::max_element(wanted.begin(), wanted.end()), 1e-30f) / 16.0f;
    out.scales.push_back(scale);
    for (const float block_scale : wanted) {
      out.multipliers.push_back(static_cast<uint8_t>(std::clamp(std::nearbyint(block_scale / scale), 1.0f, 16.0f)));
    }
    for (int64_t c = 0; c < matrix.cols; ++c) {
      const float step = scale * static_cast<float>(out.multipliers[static_cast<size_t>(r * blocks + c / block)]);
      out.quantized.push_back(static_cast<int8_t>(std::clamp(std::nearbyint(row[c] / step), -8.0f, 7.0f)));
    }
  }
  return out;
}

inline WeightMatrix nearest_int8(const Matrix& matrix) {
  WeightMatrix out;
  out.format = WeightFormat::kI8;
  out.rows = matrix.rows;
  out.cols = matrix.cols;
  for (int64_t r = 0; r < matrix.rows; ++r) {
    const float* row = matrix.values.data() + r * matrix.cols;
    float largest = 1e-30f;
    for (int64_t c = 0; c < matrix.cols; ++c) largest = std::max(largest, std::fabs(row[c]));
    out.scales.push_back(largest / 127.0f);
    for (int64_t c = 0; c < matrix.cols; ++c) {
      out.quantized.push_back(
          static_cast<int8_t>(std::clamp(std::nearbyint(row[c] / out.scales.back()), -127.0f, 127.0f)));
    }
  }
  return out;
}

// The squared error of one row, columns weighted by `importance` if there is any.
inline double row_error(const Matrix& matrix, const WeightMatrix& quantized, int64_t row,
                        const std::vector<float>& importance = {}) {
  std::vector<float> values(static_cast<size_t>(matrix.cols));
  quantized.dequantize_row(row, values.data());
  double error = 0;
  for (size_t c = 0; c < values.size(); ++c) {
    const double difference = double{matrix.values[static_cast<size_t>(row * matrix.cols) + c]} - values[c];
    error += difference * difference * (importance.empty() ? 1.0 : importance[c]);
  }
  return error;
}

}  // namespace tandem::testing
