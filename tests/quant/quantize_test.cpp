#include "quant/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "quant/round_to_nearest.h"
#include "quant/scale_search.h"

namespace tandem {
namespace quantize_test {

using testing::Matrix;
using testing::random_matrix;
using testing::row_error;
using testing::Shape;

constexpr Shape kShapes[] = {Shape::kGaussian, Shape::kHeavyTails, Shape::kOneSided, Shape::kOutlierColumns,
                             Shape::kMixedBlocks};

WeightMatrix quantize(const Matrix& matrix, const WeightSpec& spec, const QuantizeOptions& options = {},
                      int threads = 2) {
  ThreadPool pool(threads);
  auto result = quantize_matrix(matrix.values.data(), matrix.rows, matrix.cols, spec, pool, options);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? *std::move(result) : WeightMatrix();
}

std::string refusal(const Matrix& matrix, const WeightSpec& spec, const QuantizeOptions& options = {}) {
  ThreadPool pool(2);
  auto result = quantize_matrix(matrix.values.data(), matrix.rows, matrix.cols, spec, pool, options);
  EXPECT_FALSE(result.ok());
  return result.ok() ? "" : result.error().message;
}

void expect_same(const WeightMatrix& a, const WeightMatrix& b) {
  EXPECT_EQ(a.quantized, b.quantized);
  EXPECT_EQ(a.multipliers, b.multipliers);
  EXPECT_EQ(a.scales, b.scales);
}

// The smallest possible error for one row, found by trying all multipliers at many channel scales.
double exhaustive_error(const float* row, int64_t cols, int block) {
  float largest = 0;
  for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::fabs(row[c]));
  double best = std::numeric_limits<double>::max();
  for (int j = 0; j < 150; ++j) {
    const float scale = largest / 112.0f * (0.5f + 0.005f * static_cast<float>(j));
    double total = 0;
    for (int64_t begin = 0; begin < cols && total < best; begin += block) {
      double least = std::numeric_limits<double>::max();
      for (int m = 1; m <= 16; ++m) {
        const float step = scale * static_cast<float>(m);
        double error = 0;
        for (int64_t c = begin; c < std::min(begin + block, cols); ++c) {
          const double difference = row[c] - step * std::clamp(std::nearbyint(row[c] / step), -8.0f, 7.0f);
          error += difference * difference;
        }
        least = std::min(least, error);
      }
      total += least;
    }
    best = std::min(best, total);
  }
  return best;
}

struct Size {
  int64_t rows, cols;
};
constexpr Size kSizes[] = {{1, 1}, {1, 256}, {3, 5}, {5, 72}, {8, 120}, {17, 384}, {9, 33}, {2, 1031}};

TEST(Lpbq4, IsWellFormedAndNeverWorseThanRoundToNearest) {
  for (const Shape shape : kShapes) {
    for (const Size size : kSizes) {
      for (const int block : {16, 32, 64}) {
        SCOPED_TRACE(::testing::Message()
                     << size.rows << "x" << size.cols << " block " << block << " shape " << static_cast<int>(shape));
        const Matrix matrix = random_matrix(size.rows, size.cols, shape, static_cast<unsigned>(size.cols + block));
        const WeightMatrix got = quantize(matrix, {WeightFormat::kLpbq4, block});
        const WeightMatrix nearest = testing::nearest_lpbq4(matrix, block);
        ASSERT_EQ(got.format, WeightFormat::kLpbq4);
        ASSERT_EQ(got.block, block);
        ASSERT_EQ(got.quantized.size(), matrix.values.size());
        ASSERT_EQ(got.scales.size(), static_cast<size_t>(size.rows));
        ASSERT_EQ(got.multipliers.size(), static_cast<size_t>(size.rows * got.blocks_per_row()));
        for (const int8_t q : got.quantized) ASSERT_TRUE(q >= -8 && q <= 7) << int{q};
        for (const uint8_t multiplier : got.multipliers) ASSERT_TRUE(multiplier >= 1 && multiplier <= 16);
        for (int64_t r = 0; r < size.rows; ++r) {
          ASSERT_TRUE(got.scales[static_cast<size_t>(r)] > 0 && std::isfinite(got.scales[static_cast<size_t>(r)]));
          EXPECT_LE(row_error(matrix, got, r), row_error(matrix, nearest, r) * (1 + 1e-5) + 1e-15) << "row " << r;
        }
      }
    }
  }
}

TEST(Lpbq4, ComesCloseToTheExhaustiveSearch) {
  for (const Shape shape : kShapes) {
    for (const int block : {16, 32, 64}) {
      const Matrix matrix = random_matrix(4, 384, shape, 5);
      const WeightMatrix got = quantize(matrix, {WeightFormat::kLpbq4, block});
      double error = 0, best = 0;
      for (int64_t r = 0; r < matrix.rows; ++r) {
        error += row_error(matrix, got, r);
        best += exhaustive_error(matrix.values.data() + r * matrix.cols, matrix.cols, block);
      }
      EXPECT_LE(error, best * 1.025) << "block " << block << " shape " << static_cast<int>(shape);
    }
  }
}

TEST(Lpbq4, EveryValueIsRoundedToNearest) {
  const Matrix matrix = random_matrix(9, 120, Shape::kHeavyTails, 3);
  const WeightMatrix got = quantize(matrix, {WeightFormat::kLpbq4, 32});
  for (int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
    const int64_t r = i / matrix.cols, b = i % matrix.cols / 32;
    const float step = got.scales[static_cast<size_t>(r)] *
                       static_cast<float>(got.multipliers[static_cast<size_t>(r * got.blocks_per_row() + b)]);
    const float exact = std::clamp(matrix.values[static_cast<size_t>(i)] / step, -8.0f, 7.0f);
    EXPECT_NEAR(got.quantized[static_cast<size_t>(i)], exact, 0.5001f);
  }
}

// A matrix that is already in LPBQ form, using the whole range of values, comes back unchanged.
TEST(Lpbq4, IsLosslessOnItsOwnGrid) {
  std::mt19937 random(11);
  WeightMatrix original;
  original.format = WeightFormat::kLpbq4;
  original.rows = 6;
  original.cols = 200;
  original.block = 32;
  for (int64_t r = 0; r < original.rows; ++r) {
    original.scales.push_back(0.001f * static_cast<float>(r + 1));
    for (int64_t b = 0; b < original.blocks_per_row(); ++b) {
      original.multipliers.push_back(b == 2 ? 16 : static_cast<uint8_t>(1 + random() % 16));
    }
    for (int64_t c = 0; c < original.cols; ++c) {
      const int q = c % 8 == 0 ? -8 : static_cast<int>(random() % 16) - 8;
      original.quantized.push_back(static_cast<int8_t>(q));
    }
  }
  Matrix matrix{original.rows, original.cols, std::vector<float>(original.quantized.size())};
  for (int64_t r = 0; r < original.rows; ++r) original.dequantize_row(r, matrix.values.data() + r * original.cols);
  const WeightMatrix got = quantize(matrix, {WeightFormat::kLpbq4, 32});
  EXPECT_EQ(got.quantized, original.quantized);
  EXPECT_EQ(got.multipliers, original.multipliers);
  EXPECT_GT(sqnr_db(matrix.values.data(), got), 110);
}

TEST(Int8, IsWellFormedAndNeverWorseThanRoundToNearest) {
  for (const Shape shape : kShapes) {
    for (const Size size : kSizes) {
      const Matrix matrix = random_matrix(size.rows, size.cols, shape, 8);
      const WeightMatrix got = quantize(matrix, {WeightFormat::kI8, 0});
      const WeightMatrix nearest = testing::nearest_int8(matrix);
      EXPECT_EQ(got.block, 0);
      EXPECT_TRUE(got.multipliers.empty());
      for (const int8_t q : got.quantized) ASSERT_GE(q, -127);
      for (int64_t r = 0; r < size.rows; ++r) {
        ASSERT_TRUE(got.scales[static_cast<size_t>(r)] > 0 && std::isfinite(got.scales[static_cast<size_t>(r)]));
        EXPECT_LE(row_error(matrix, got, r), row_error(matrix, nearest, r) * (1 + 1e-5) + 1e-15)
            << size.rows << "x" << size.cols << " row " << r;
      }
    }
  }
}

TEST(Int8, ClipsOneOutlierWhereThatIsBetter) {
  // One weight slightly beyond 4096 others that fill the range evenly: stretching the scale for it costs all of them.
  Matrix matrix{1, 4097, std::vector<float>(4097)};
  for (int i = 0; i < 4096; ++i) matrix.values[static_cast<size_t>(i)] = -1.0f + static_cast<float>(i) / 2048.0f;
  matrix.values[4096] = 1.06f;
  const WeightMatrix got = quantize(matrix, {WeightFormat::kI8, 0});
  EXPECT_LT(got.scales[0], 1.055f / 127);
  EXPECT_LT(row_error(matrix, got, 0), row_error(matrix, testing::nearest_int8(matrix), 0));
}

TEST(Quantize, DependsOnNeitherThreadsNorChunks) {
  for (const WeightFormat format : {WeightFormat::kLpbq4, WeightFormat::kI8}) {
    const WeightSpec spec{format, 32};
    const Matrix matrix = random_matrix(1203, 200, Shape::kHeavyTails, 21);
    const WeightMatrix whole = quantize(matrix, spec, {}, 1);
    expect_same(quantize(matrix, spec, {}, 2), whole);
    expect_same(quantize(matrix, spec, {}, 5), whole);
    for (const int64_t chunk : {1, 7, 400}) {
      WeightMatrix joined;
      for (int64_t begin = 0; begin < matrix.rows; begin += chunk) {
        const int64_t rows = std::min(chunk, matrix.rows - begin);
        const auto first = matrix.values.begin() + begin * matrix.cols;
        const Matrix part{rows, matrix.cols, {first, first + rows * matrix.cols}};
        const WeightMatrix some = quantize(part, spec, {}, 2);
        joined.quantized.insert(joined.quantized.end(), some.quantized.begin(), some.quantized.end());
        joined.multipliers.insert(joined.multipliers.end(), some.multipliers.begin(), some.multipliers.end());
        joined.scales.insert(joined.scales.end(), some.scales.begin(), some.scales.end());
      }
      expect_same(joined, whole);
    }
  }
}

// Run-time dispatch affects the speed only.
TEST(Quantize, InstructionSetsAgreeToTheBit) {
  for (const Shape shape : kShapes) {
    const Matrix matrix = random_matrix(8, 1000, shape, 33);
    const std::vector<float> importance = random_matrix(1, 1000, Shape::kHeavyTails, 34).values;
    std::vector<float> positive;
    for (const float value : importance) positive.push_back(value * value + 1e-3f);
    for (const float* weights : {static_cast<const float*>(nullptr), static_cast<const float*>(positive.data())}) {
      for (const int block : {0, 16, 32, 64}) {
        WeightMatrix results[2];
        for (int portable = 0; portable < 2; ++portable) {
          WeightMatrix& out = results[portable];
          out.quantized.resize(8000);
          out.scales.resize(8);
          if (block > 0) out.multipliers.resize(static_cast<size_t>(8 * ((1000 + block - 1) / block)));
          SearchTask task{matrix.values.data(),
                          8,
                          1000,
                          block,
                          weights,
                          out.quantized.data(),
                          block > 0 ? out.multipliers.data() : nullptr,
                          out.scales.data()};
          SearchScratch scratch;
          if (block == 0) portable ? search_int8_portable(task, scratch) : search_int8(task, scratch);
          if (block > 0) portable ? search_lpbq4_portable(task, scratch) : search_lpbq4(task, scratch);
        }
        expect_same(results[0], results[1]);
      }
    }
  }
}

// Scaling by a power of two changes the scales and nothing else, from the smallest to the largest numbers allowed.
TEST(Quantize, IsInvariantToPowersOfTwo) {
  for (const WeightFormat format : {WeightFormat::kLpbq4, WeightFormat::kI8}) {
    const Matrix matrix = random_matrix(8, 96, Shape::kGaussian, 2);
    const WeightMatrix plain = quantize(matrix, {format, 16});
    for (const int exponent : {-80, -1, 3, 101}) {
      Matrix scaled = matrix;
      for (float& value : scaled.values) value = std::ldexp(value, exponent);
      const WeightMatrix got = quantize(scaled, {format, 16});
      EXPECT_EQ(got.quantized, plain.quantized);
      EXPECT_EQ(got.multipliers, plain.multipliers);
      for (size_t r = 0; r < 8; ++r) EXPECT_EQ(got.scales[r], std::ldexp(plain.scales[r], exponent));
      std::vector<float> row(96);
      got.dequantize_row(0, row.data());
      for (const float value : row) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

TEST(Quantize, ZeroAndVanishingRowsBecomeZerosWithAPositiveScale) {
  for (const WeightFormat format : {WeightFormat::kLpbq4, WeightFormat::kI8}) {
    Matrix matrix = random_matrix(4, 100, Shape::kGaussian, 2);
    const WeightMatrix before = quantize(matrix, {format, 32});
    std::fill_n(matrix.values.begin() + 100, 100, -0.0f);
    std::fill_n(matrix.values.begin() + 200, 100, 1e-42f);
    std::fill_n(matrix.values.begin() + 32, 32, 0.0f);  // One block of the first row.
    const WeightMatrix got = quantize(matrix, {format, 32});
    for (size_t i = 100; i < 300; ++i) EXPECT_EQ(got.quantized[i], 0);
    for (size_t i = 32; i < 64; ++i) EXPECT_EQ(got.quantized[i], 0);
    for (const float scale : got.scales) EXPECT_TRUE(scale > 0 && std::isfinite(scale));
    for (const uint8_t multiplier : got.multipliers) EXPECT_TRUE(multiplier >= 1 && multiplier <= 16);
    EXPECT_EQ(got.scales[3], before.scales[3]);  // The neighbours are unaffected.
  }
}

TEST(Quantize, ImportanceMovesTheErrorToWhereItMattersLess) {
  std::mt19937 random(4);
  for (const WeightFormat format : {WeightFormat::kLpbq4, WeightFormat::kI8}) {
    const Matrix matrix = random_matrix(32, 256, Shape::kHeavyTails, 9);
    std::vector<float> importance(256);
    for (float& value : importance) value = std::exp(2.0f * std::normal_distribution<float>()(random));
    QuantizeOptions options;
    options.importance = importance;
    const WeightMatrix plain = quantize(matrix, {format, 32}), weighted = quantize(matrix, {format, 32}, options);
    double plain_error = 0, weighted_error = 0;
    for (int64_t r = 0; r < matrix.rows; ++r) {
      plain_error += row_error(matrix, plain, r, importance);
      weighted_error += row_error(matrix, weighted, r, importance);
    }
    EXPECT_LT(weighted_error, plain_error * 0.95) << weight_format_name(format);

    // Any unit will do, and equal importances are the same as none.
    std::vector<float> other_unit = importance, equal(256, 0.25f), none(256, 0.0f);
    for (float& value : other_unit) value *= 1024.0f;
    options.importance = other_unit;
    expect_same(quantize(matrix, {format, 32}, options), weighted);
    options.importance = equal;
    expect_same(quantize(matrix, {format, 32}, options), plain);
    options.importance = none;
    expect_same(quantize(matrix, {format, 32}, options), plain);
  }
}

TEST(Quantize, FloatFormatsRoundToNearest) {
  Matrix matrix = random_matrix(5, 37, Shape::kHeavyTails, 1);
  matrix.values[0] = 65504.0f;
  matrix.values[1] = -65504.0f;
  matrix.values[2] = 0x1p-24f;
  EXPECT_EQ(quantize(matrix, {WeightFormat::kF32, 0}).f32, matrix.values);
  EXPECT_EQ(sqnr_db(matrix.values.data(), quantize(matrix, {WeightFormat::kF32, 0})),
            std::numeric_limits<double>::infinity());
  const WeightMatrix half = quantize(matrix, {WeightFormat::kF16, 0}),
                     brain = quantize(matrix, {WeightFormat::kBF16, 0});
  std::vector<float> row(37);
  for (int64_t r = 0; r < matrix.rows; ++r) {
    half.dequantize_row(r, row.data());
    for (size_t c = 0; c < 37; ++c) {
      const float value = matrix.values[static_cast<size_t>(r) * 37 + c];
      EXPECT_NEAR(row[c], value, std::max(std::fabs(value) * 0x1p-11f, 0x1p-25f));
    }
    brain.dequantize_row(r, row.data());
    for (size_t c = 0; c < 37; ++c) {
      const float value = matrix.values[static_cast<size_t>(r) * 37 + c];
      EXPECT_NEAR(row[c], value, std::fabs(value) * 0x1p-8f);
    }
  }
}

TEST(Quantize, RefusesWhatTheFormatCannotHold) {
  Matrix matrix = random_matrix(700, 130, Shape::kGaussian, 1);
  const size_t at = 600 * 130 + 12;
  QuantizeOptions options;
  options.first_row = 1000;
  matrix.values[at] = -70000.0f;
  const std::string half = refusal(matrix, {WeightFormat::kF16, 0}, options);
  EXPECT_NE(half.find("row 1600, column 12 is -70000"), std::string::npos) << half;
  EXPECT_NE(half.find("bf16 or fp32"), std::string::npos) << half;
  quantize(matrix, {WeightFormat::kBF16, 0});
  matrix.values[at] = 1e31f;
  EXPECT_NE(refusal(matrix, {WeightFormat::kLpbq4, 32}).find("row 600"), std::string::npos);
  EXPECT_NE(refusal(matrix, {WeightFormat::kI8, 0}).find("use fp32"), std::string::npos);
  matrix.values[at] = std::numeric_limits<float>::max();  // Would round up to infinity.
  EXPECT_NE(refusal(matrix, {WeightFormat::kBF16, 0}).find("bf16"), std::string::npos);
  quantize(matrix, {WeightFormat::kF32, 0});
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity()}) {
    matrix.values[at] = bad;
    for (int format = 0; format < kWeightFormatCount; ++format) {
      const std::string message = refusal(matrix, {static_cast<WeightFormat>(format), 32});
      EXPECT_NE(message.find("row 600, column 12"), std::string::npos) << message;
    }
  }
}

TEST(Quantize, RefusesBadArguments) {
  const Matrix matrix = random_matrix(2, 8, Shape::kGaussian, 1);
  EXPECT_NE(refusal(matrix, {WeightFormat::kLpbq4, 24}).find("16, 32 or 64, not 24"), std::string::npos);
  refusal({0, 8, matrix.values}, {});
  refusal({2, -8, matrix.values}, {});
  refusal({int64_t{1} << 62, int64_t{1} << 62, matrix.values}, {});
  std::vector<float> importance(7, 1.0f);
  QuantizeOptions options;
  options.importance = importance;
  EXPECT_NE(refusal(matrix, {}, options).find("7 importances for 8 columns"), std::string::npos);
  importance.assign(8, 1.0f);
  importance[3] = -1.0f;
  options.importance = importance;
  EXPECT_NE(refusal(matrix, {}, options).find("column 3"), std::string::npos);
  importance[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(refusal(matrix, {}, options).find("column 3"), std::string::npos);
}

TEST(QuantizationReport, AddsUp) {
  const Matrix matrix = random_matrix(6, 64, Shape::kGaussian, 1);
  const Matrix top{2, 64, {matrix.values.begin(), matrix.values.begin() + 128}};
  const Matrix rest{4, 64, {matrix.values.begin() + 128, matrix.values.end()}};
  QuantizationReport sum = quantization_report(top.values.data(), quantize(top, {}));
  sum.add(quantization_report(rest.values.data(), quantize(rest, {})));
  const QuantizationReport whole = quantization_report(matrix.values.data(), quantize(matrix, {}));
  EXPECT_EQ(sum.count, whole.count);
  EXPECT_NEAR(sum.sqnr_db(), whole.sqnr_db(), 1e-9);
  EXPECT_EQ(sum.max_error, whole.max_error);
  EXPECT_EQ(bits_per_weight({WeightFormat::kLpbq4, 32}), 4.25);
}

}  // namespace quantize_test
}  // namespace tandem
