#include "weight_layout/row_table.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace tandem {
namespace {

// Products whose sum fits an int32: 256 * 127 * 32767 is half of its range.
constexpr int64_t kSumLength = 256;
constexpr float kLargestQuantized = 32767.0f;
// Logits per group; the first pass compares only the groups' maxima.
constexpr int64_t kGroup = 64;

// Larger values first, the earlier one on ties, as one sortable number.
uint64_t sort_key(uint16_t value, int64_t index) {
  return uint64_t{value} << 32 | (uint64_t{std::numeric_limits<uint32_t>::max()} - static_cast<uint64_t>(index));
}
int32_t index_of(uint64_t key) {
  return static_cast<int32_t>(std::numeric_limits<uint32_t>::max() - static_cast<uint32_t>(key));
}

int32_t multiply_some(const int8_t* a, const int16_t* b, int64_t count) {
  int32_t sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += static_cast<int16_t>(a[i]) * b[i];
  return sum;
}

}  // namespace

PackedSizes row_table_sizes(int64_t rows, int64_t cols) {
  const RowTable shape{rows, cols, nullptr, nullptr};
  PackedSizes sizes;
  sizes.data = static_cast<uint64_t>(rows) * static_cast<uint64_t>(shape.stride());
  sizes.scales = static_cast<uint64_t>(rows) * sizeof(float);
  return sizes;
}

PackedStorage pack_row_table(const WeightMatrix& matrix) {
  PackedStorage out;
  out.format = matrix.format;
  out.rows = matrix.rows;
  out.cols = matrix.cols;
  out.scales = matrix.scales;
  out.data.resize(row_table_sizes(matrix.rows, matrix.cols).data);
  const int64_t stride = RowTable{matrix.rows, matrix.cols, nullptr, nullptr}.stride();
  for (int64_t row = 0; row < matrix.rows; ++row) {
    std::copy_n(matrix.quantized.data() + row * matrix.cols, matrix.cols, out.data.data() + row * stride);
  }
  return out;
}

void unpack_row(const RowTable& table, int64_t row, float* out) {
  const int8_t* const quantized = table.values + row * table.stride();
  const float scale = table.scales[row];
  for (int64_t col = 0; col < table.cols; ++col) out[col] = scale * static_cast<float>(quantized[col]);
}

void RescoreInput::set(const float* x, int64_t cols) {
  float largest = 0.0f;
  bool is_finite = true;
  for (int64_t i = 0; i < cols; ++i) {
    largest = std::max(largest, std::fabs(x[i]));
    is_finite = is_finite && std::isfinite(x[i]);
  }
  values.assign(static_cast<size_t>((cols + kColAlign - 1) / kColAlign * kColAlign), 0);
  scale = is_finite ? double{largest} / double{kLargestQuantized} : std::numeric_limits<double>::quiet_NaN();
  if (!is_finite || largest == 0.0f) return;
  const double inverse = double{kLargestQuantized} / double{largest};
  for (int64_t i = 0; i < cols; ++i) {
    values[static_cast<size_t>(i)] = static_cast<int16_t>(std::lrint(double{x[i]} * inverse));
  }
}

float multiply_row(const RowTable& table, int64_t row, const RescoreInput& x) {
  const int8_t* const quantized = table.values + row * table.stride();
  int64_t sum = 0;
  for (int64_t at = 0; at < table.stride(); at += kSumLength) {
    sum += multiply_some(quantized + at, x.values.data() + at, std::min(kSumLength, table.stride() - at));
  }
  return static_cast<float>(static_cast<double>(sum) * double{table.scales[row]} * x.scale);
}

void find_largest(const uint16_t* values, int64_t size, int64_t count, std::vector<uint64_t>& scratch, int32_t* found) {
  // If there are `count` groups or more, the count-th largest group maximum is no larger than the count-th largest
  // value. Most groups lie below it and are not read again.
  const int64_t groups = (size + kGroup - 1) / kGroup;
  scratch.clear();
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t end = std::min(size, (g + 1) * kGroup);
    uint16_t largest = 0;
    for (int64_t i = g * kGroup; i < end; ++i) largest = std::max(largest, values[i]);
    scratch.push_back(sort_key(largest, g));
  }
  uint64_t least = 0;
  if (groups > count) {
    std::nth_element(scratch.begin(), scratch.begin() + (count - 1), scratch.end(), std::greater<>());
    least = scratch[static_cast<size_t>(count - 1)] >> 32;
  }
  const auto candidates = static_cast<size_t>(groups);
  for (size_t g = 0; g < candidates; ++g) {
    if (scratch[g] >> 32 < least) continue;
    const int64_t begin = index_of(scratch[g]) * kGroup, end = std::min(size, begin + kGroup);
    for (int64_t i = begin; i < end; ++i) {
      if (values[i] >= least) scratch.push_back(sort_key(values[i], i));
    }
  }
  const auto first = scratch.begin() + groups;
  std::nth_element(first, first + (count - 1), scratch.end(), std::greater<>());
  for (int64_t i = 0; i < count; ++i) found[i] = index_of(first[i]);
}

}  // namespace tandem
