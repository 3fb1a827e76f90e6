// Weights to the portable quantized form (numerics/weight_matrix.h): float conversions, int8 per channel, and LPBQ
// int4, the last two with scales searched for the smallest squared error. docs/quantization.md has the maths and the
// measurements.
#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

struct WeightSpec {
  WeightFormat format = WeightFormat::kLpbq4;
  int block = 32;  // Only for kLpbq4: 16, 32 or 64.

  // Ignores what the other formats do not use.
  friend bool operator==(const WeightSpec& a, const WeightSpec& b) {
    return a.format == b.format && (a.format != WeightFormat::kLpbq4 || a.block == b.block);
  }
};

struct QuantizeOptions {
  // How much the error of each input column counts, for example the mean square of its activation; one finite number >=
  // 0 per column, in any unit. Empty: all count the same. Ignored by the float formats, which round to nearest.
  std::span<const float> importance;
  // The row number of values[0] in the whole matrix, for error messages only.
  int64_t first_row = 0;
};

// Quantizes `rows` rows of `cols` floats (row-major). Rows are independent: a large matrix can be done in chunks of
// rows, and the result depends neither on the chunks nor on the number of threads.
//
// NaN and infinity are refused, and so are values outside the format's range: beyond 65504 in fp16, beyond
// kLargestQuantizable in int8 and lpbq4.
Result<WeightMatrix> quantize_matrix(const float* values, int64_t rows, int64_t cols, const WeightSpec& spec,
                                     ThreadPool& pool, const QuantizeOptions& options = {});

// Far beyond any real weight; squares of scaled weights stay finite. Rows with only smaller magnitudes than the
// smallest are stored as zeros.
inline constexpr float kLargestQuantizable = 0x1p100f;
inline constexpr float kSmallestQuantizable = 0x1p-100f;

// Bits per weight in the portable form as back ends store it, including block multipliers, excluding row scales.
double bits_per_weight(const WeightSpec& spec);

// The error of a quantized matrix. Sums, so that the reports of chunks add up.
struct QuantizationReport {
  int64_t count = 0;
  double signal = 0;  // Sum of squares of the weights.
  double noise = 0;   // Sum of squares of the differences.
  double max_error = 0;

  void add(const QuantizationReport& other);
  // 10 log10(signal / noise); infinity where nothing was lost.
  double sqnr_db() const;
};

// Compares `matrix` with the values it was made from, laid out as in quantize_matrix().
QuantizationReport quantization_report(const float* values, const WeightMatrix& matrix);
double sqnr_db(const float* values, const WeightMatrix& matrix);

}  // namespace tandem
