// Linear layers of all formats: exact integers, floats against double precision, no dependence on the number of tokens,
// nothing written outside the requested rows.
#include <cstring>

#include "backends/cpu/kernels/kernel_test.h"
#include "support/arranged_values.h"

namespace tandem::cpu {
namespace linear_test {

constexpr float kUntouched = 12345.678f;

struct Inputs {
  std::vector<int8_t> quantized_storage;
  std::vector<float> scales, x_storage, bias;
  int64_t stride = 0, x_stride = 0;
  // One byte, one float off alignment.
  const int8_t* quantized() const { return quantized_storage.data() + 1; }
  const float* x() const { return x_storage.data() + 1; }
};

Inputs make_inputs(const PackedMatrix& w, int64_t tokens, Fill fill, Random& random) {
  Inputs in;
  in.stride = w.padded_cols() + 64 * random.integer(0, 1);
  in.stride = (in.stride + kColAlign - 1) / kColAlign * kColAlign;
  in.x_stride = w.cols + random.integer(0, 3);
  in.quantized_storage.assign(static_cast<size_t>(tokens * in.stride + 1), 0);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t c = 0; c < w.cols; ++c) {
      int64_t q = random.integer(-127, 127);
      if (fill == Fill::kLowest) q = -127;
      if (fill == Fill::kHighest) q = 127;
      if (fill == Fill::kZero) q = 0;
      if (fill == Fill::kEdges) q = random.integer(0, 1) == 0 ? -127 : 127;
      in.quantized_storage[static_cast<size_t>(1 + t * in.stride + c)] = static_cast<int8_t>(q);
    }
    in.scales.push_back(std::abs(random.normal(0.1f)));
  }
  in.x_storage = random.normals(tokens * in.x_stride + 1);
  in.bias = random.normals(w.rows);
  return in;
}

// All rows of all tokens, in two calls over ranges of panels; y has a gap after each token.
std::vector<float> run(const KernelTable& k, const PackedMatrix& w, const Inputs& in, int64_t token, int64_t tokens,
                       bool bias, int64_t y_stride, const std::vector<float>* added = nullptr, bool in_place = false) {
  AlignedBuffer<uint8_t> scratch(k.linear_scratch_bytes(w, tokens));
  std::vector<float> y(static_cast<size_t>(tokens * y_stride), kUntouched);
  if (in_place) y = *added;
  LinearTask task;
  if (added != nullptr) task.added = in_place ? y.data() : added->data();
  task.weight = &w;
  task.tokens = tokens;
  task.x = in.x() + token * in.x_stride;
  task.x_stride = in.x_stride;
  const int8_t* const quantized = in.quantized() + token * in.stride;
  const std::vector<uint8_t> arranged = test::arranged_values(k, quantized, in.stride, tokens, w.padded_cols());
  task.quantized = {arranged.empty() ? quantized : nullptr, in.stride, in.scales.data() + token, arranged.data()};
  task.bias = bias ? in.bias.data() : nullptr;
  task.y = y.data();
  task.y_stride = y_stride;
  task.scratch = scratch.data;
  const int64_t middle = w.panels() / 2;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, middle}, std::pair{middle, w.panels()}}) {
    task.panel_begin = begin;
    task.panel_end = end;
    k.linear(task);
  }
  return y;
}

class Linear : public EachIsa {};
TANDEM_EACH_ISA(Linear);

void check_integers(const KernelTable& k, const WeightMatrix& matrix, int64_t tokens, Fill fill, bool bias,
                    Random& random) {
  const PackedStorage storage = pack_matrix(matrix);
  const PackedMatrix w = storage.view();
  const Inputs in = make_inputs(w, tokens, fill, random);
  const int64_t y_stride = w.rows + 3;
  const std::vector<float> y = run(k, w, in, 0, tokens, bias, y_stride);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t r = 0; r < y_stride; ++r) {
      const float got = y[static_cast<size_t>(t * y_stride + r)];
      if (r >= w.rows) {
        ASSERT_EQ(got, kUntouched);
        continue;
      }
      int64_t sum = 0;
      for (int64_t c = 0; c < w.cols; ++c) {
        int64_t weight = matrix.quantized[static_cast<size_t>(r * w.cols + c)];
        if (w.format == WeightFormat::kLpbq4) {
          weight *= matrix.multipliers[static_cast<size_t>(r * matrix.blocks_per_row() + c / matrix.block)];
        }
        sum += weight * in.quantized()[t * in.stride + c];
      }
      const float factor = matrix.scales[static_cast<size_t>(r)] * in.scales[static_cast<size_t>(t)];
      float want = static_cast<float>(static_cast<int32_t>(sum)) * factor;
      if (bias) want += in.bias[static_cast<size_t>(r)];
      ASSERT_EQ(std::memcmp(&got, &want, sizeof(float)), 0)
          << weight_format_name(w.format) << " " << w.rows << "x" << w.cols << " block " << w.block << ", token " << t
          << " of " << tokens << ", row " << r << ": " << got << " instead of " << want;
    }
  }
}

TEST_P(Linear, IntegersAreExact) {
  Random random(10);
  for (int round = 0; round < 250; ++round) {
    const WeightFormat format = round % 4 == 0 ? WeightFormat::kI8 : WeightFormat::kLpbq4;
    const int64_t rows = random.integer(1, 50), cols = random.integer(1, 200), tokens = random.integer(1, 40);
    const WeightMatrix m = make_matrix(format, rows, cols, 16 << random.integer(0, 2), Fill::kRandom, random);
    check_integers(k(), m, tokens, Fill::kRandom, round % 2 == 0, random);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Linear, IntegersAreExactAtTheExtremes) {
  Random random(11);
  for (const WeightFormat format : {WeightFormat::kI8, WeightFormat::kLpbq4}) {
    for (const int block : {16, 32, 64}) {
      for (const Fill weights : {Fill::kLowest, Fill::kHighest, Fill::kZero, Fill::kEdges, Fill::kRandom}) {
        for (const Fill inputs : {Fill::kLowest, Fill::kHighest, Fill::kZero, Fill::kEdges, Fill::kRandom}) {
          for (const int64_t tokens : {1, 3, 4, 5, 13}) {
            check_integers(k(), make_matrix(format, 19, 330, block, weights, random), tokens, inputs, false, random);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Every possible remainder of tokens in the tiles, in every weight format.
TEST_P(Linear, IntegersAreExactForAnyNumberOfTokens) {
  Random random(17);
  for (int64_t tokens = 1; tokens <= 26; ++tokens) {
    for (const int block : {0, 16, 32, 64}) {
      const WeightFormat format = block == 0 ? WeightFormat::kI8 : WeightFormat::kLpbq4;
      WeightMatrix m = make_matrix(format, 34, 70, block, Fill::kRandom, random);
      std::fill_n(m.quantized.begin() + 70 * random.integer(0, 33), 70, int8_t{0});  // One row is zero.
      check_integers(k(), m, tokens, Fill::kRandom, tokens % 2 == 0, random);
      if (HasFatalFailure()) return;
    }
  }
}

// Bit for bit the same as a separate addition after the layer, even if the results overwrite the addend.
TEST_P(Linear, AddsToItsResults) {
  Random random(18);
  for (int round = 0; round < 100; ++round) {
    const auto format = static_cast<WeightFormat>(round % kWeightFormatCount);
    const int64_t rows = random.integer(1, 70), cols = random.integer(1, 100), tokens = random.integer(1, 30);
    const PackedStorage storage = pack_matrix(make_matrix(format, rows, cols, 32, Fill::kRandom, random));
    const Inputs in = make_inputs(storage.view(), tokens, Fill::kRandom, random);
    const std::vector<float> added = random.normals(tokens * rows);
    const bool bias = round % 2 == 0;
    std::vector<float> want = run(k(), storage.view(), in, 0, tokens, bias, rows);
    for (size_t i = 0; i < want.size(); ++i) want[i] += added[i];
    ASSERT_EQ(run(k(), storage.view(), in, 0, tokens, bias, rows, &added), want) << weight_format_name(format);
    ASSERT_EQ(run(k(), storage.view(), in, 0, tokens, bias, rows, &added, true), want) << weight_format_name(format);
  }
}

TEST_P(Linear, Int8PeakCountsItsOperations) {
  const int64_t one = k().multiply_int8(1);
  EXPECT_GT(one, 0);
  EXPECT_EQ(k().multiply_int8(1000), 1000 * one);
}

// The longest rows that packed_matrix.h allows: sums near the limits of int32.
TEST_P(Linear, IntegersAreExactInLongRows) {
  Random random(12);
  for (const WeightFormat format : {WeightFormat::kI8, WeightFormat::kLpbq4}) {
    for (const Fill inputs : {Fill::kLowest, Fill::kHighest}) {
      for (const int64_t tokens : {1, 6}) {
        const WeightMatrix m = make_matrix(format, 2, kMaxQuantizedCols, 64, Fill::kLowest, random);
        check_integers(k(), m, tokens, inputs, true, random);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(Linear, ScaleOfNanStaysVisible) {
  Random random(13);
  const PackedStorage storage = pack_matrix(make_matrix(WeightFormat::kLpbq4, 20, 64, 32, Fill::kZero, random));
  Inputs in = make_inputs(storage.view(), 2, Fill::kZero, random);
  in.scales[1] = kNan;
  const std::vector<float> y = run(k(), storage.view(), in, 0, 2, false, 20);
  EXPECT_EQ(y[0], 0.0f);
  for (size_t r = 0; r < 20; ++r) EXPECT_TRUE(std::isnan(y[20 + r]));
}

TEST_P(Linear, FloatsMatchDoublePrecision) {
  Random random(14);
  for (int round = 0; round < 150; ++round) {
    const WeightFormat format = static_cast<WeightFormat>(round % 3);
    const int64_t rows = random.integer(1, 150), cols = random.integer(1, 700), tokens = random.integer(1, 40);
    const WeightMatrix m = make_matrix(format, rows, cols, 0, Fill::kRandom, random);
    const PackedStorage storage = pack_matrix(m);
    const Inputs in = make_inputs(storage.view(), tokens, Fill::kRandom, random);
    const int64_t y_stride = rows + 1;
    const std::vector<float> y = run(k(), storage.view(), in, 0, tokens, round % 2 == 0, y_stride);
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      m.dequantize_row(r, row.data());
      for (int64_t t = 0; t < tokens; ++t) {
        double want = 0, size = 0;
        for (int64_t c = 0; c < cols; ++c) {
          const double product = double{row[static_cast<size_t>(c)]} * double{in.x()[t * in.x_stride + c]};
          want += product;
          size += std::abs(product);
        }
        if (round % 2 == 0) want += double{in.bias[static_cast<size_t>(r)]};
        ASSERT_NEAR(y[static_cast<size_t>(t * y_stride + r)], want, 1e-6 * (size + 1))
            << weight_format_name(format) << " " << rows << "x" << cols << ", token " << t << " of " << tokens;
      }
    }
    for (int64_t t = 0; t < tokens; ++t) ASSERT_EQ(y[static_cast<size_t>(t * y_stride + rows)], kUntouched);
  }
}

// Prefill and decode must agree to the bit.
TEST_P(Linear, TokensDoNotInfluenceEachOther) {
  Random random(15);
  for (int f = 0; f < kWeightFormatCount; ++f) {
    const int64_t rows = 130, cols = 300, tokens = 40;
    const PackedStorage storage =
        pack_matrix(make_matrix(static_cast<WeightFormat>(f), rows, cols, 32, Fill::kRandom, random));
    const PackedMatrix w = storage.view();
    const Inputs in = make_inputs(w, tokens, Fill::kRandom, random);
    const std::vector<float> all = run(k(), w, in, 0, tokens, true, rows);
    for (int64_t begin = 0, count = 1; begin + count <= tokens; begin += count, ++count) {
      const std::vector<float> part = run(k(), w, in, begin, count, true, rows);
      ASSERT_EQ(0, std::memcmp(part.data(), all.data() + begin * rows, part.size() * sizeof(float)))
          << weight_format_name(w.format) << ", tokens " << begin << " to " << begin + count;
    }
  }
}

TEST_P(Linear, QuantizesRowsToNearestInt8) {
  Random random(16);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = random.integer(1, 5), cols = random.integer(1, 200);
    const int64_t x_stride = cols + 2, stride = (cols + 63) / 64 * 64;
    // From denormal to huge.
    std::vector<float> x =
        random.normals(rows * x_stride, std::pow(10.0f, static_cast<float>(random.integer(-42, 36))));
    if (round % 5 == 0) std::fill(x.begin(), x.begin() + x_stride, 0.0f);
    std::vector<int8_t> quantized(static_cast<size_t>(rows * stride), 99), portable_quantized = quantized;
    std::vector<float> scales(static_cast<size_t>(rows)), portable_scales = scales;
    k().quantize_rows(x.data(), x_stride, rows, cols, quantized.data(), stride, scales.data());
    portable_kernels().quantize_rows(x.data(), x_stride, rows, cols, portable_quantized.data(), stride,
                                     portable_scales.data());
    EXPECT_EQ(quantized, portable_quantized);
    EXPECT_EQ(scales, portable_scales);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * x_stride;
      float largest = 0;
      for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(row[c]));
      ASSERT_EQ(scales[static_cast<size_t>(r)], largest / 127.0f);
      for (int64_t c = 0; c < stride; ++c) {
        const int q = quantized[static_cast<size_t>(r * stride + c)];
        const double want = c < cols && largest > 0 ? double{row[c]} / double{largest} * 127 : 0.0;
        ASSERT_NEAR(q, want, 0.5001) << row[c] << " of " << largest;
        ASSERT_LE(std::abs(q), 127);
      }
    }
  }
  for (const float odd : {kNan, kInf, -kInf}) {
    std::vector<float> x = random.normals(70);
    x[69] = odd;
    std::vector<int8_t> quantized(128, 99);
    float scale = 0;
    k().quantize_rows(x.data(), 70, 1, 70, quantized.data(), 128, &scale);
    EXPECT_TRUE(std::isnan(scale));
    for (const int8_t q : quantized) EXPECT_EQ(q, 0);
  }
}

TEST_P(Linear, QuantizesRowsTo16Bits) {
  Random random(17);
  for (int round = 0; round < 200; ++round) {
    const int64_t rows = random.integer(1, 4), cols = random.integer(1, 200);
    const int64_t x_stride = cols + 2, stride = (cols + 63) / 64 * 64;
    std::vector<float> x =
        random.normals(rows * x_stride, std::pow(10.0f, static_cast<float>(random.integer(-36, 36))));
    if (round % 5 == 0) std::fill(x.begin(), x.begin() + x_stride, 0.0f);
    std::vector<int8_t> quantized(static_cast<size_t>(2 * rows * stride), 99), portable_quantized = quantized;
    std::vector<float> scales(static_cast<size_t>(2 * rows)), portable_scales = scales;
    k().quantize_rows_int16(x.data(), x_stride, rows, cols, quantized.data(), stride, scales.data());
    portable_kernels().quantize_rows_int16(x.data(), x_stride, rows, cols, portable_quantized.data(), stride,
                                           portable_scales.data());
    EXPECT_EQ(quantized, portable_quantized);
    EXPECT_EQ(scales, portable_scales);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * x_stride;
      float largest = 0;
      for (int64_t c = 0; c < cols; ++c) largest = std::max(largest, std::abs(row[c]));
      ASSERT_EQ(scales[static_cast<size_t>(2 * r + 1)], largest / 32512.0f);
      ASSERT_EQ(scales[static_cast<size_t>(2 * r)], 255.0f * (largest / 32512.0f));
      for (int64_t c = 0; c < stride; ++c) {
        const int high = quantized[static_cast<size_t>(2 * r * stride + c)];
        const int low = quantized[static_cast<size_t>((2 * r + 1) * stride + c)];
        const double want = c < cols && largest > 0 ? double{row[c]} / double{largest} * 32512 : 0.0;
        ASSERT_NEAR(255 * high + low, want, 0.51) << row[c] << " of " << largest;
        ASSERT_LE(std::abs(high), 127);
        ASSERT_LE(std::abs(low), 127);
      }
    }
  }
  // Every possible value survives the round trip.
  std::vector<float> all;
  for (int q = -32512; q <= 32512; ++q) all.push_back(static_cast<float>(q));
  const auto count = static_cast<int64_t>(all.size()), stride = (count + 63) / 64 * 64;
  std::vector<int8_t> quantized(static_cast<size_t>(2 * stride));
  float scales[2] = {};
  k().quantize_rows_int16(all.data(), count, 1, count, quantized.data(), stride, scales);
  EXPECT_EQ(scales[1], 1.0f);
  for (int64_t c = 0; c < count; ++c) {
    ASSERT_EQ(255 * quantized[static_cast<size_t>(c)] + quantized[static_cast<size_t>(stride + c)], c - 32512);
  }
  for (const float odd : {kNan, kInf, -kInf}) {
    std::vector<float> x = random.normals(70);
    x[69] = odd;
    quantized.assign(256, 99);
    k().quantize_rows_int16(x.data(), 70, 1, 70, quantized.data(), 128, scales);
    EXPECT_TRUE(std::isnan(scales[0]) && std::isnan(scales[1]));
    for (const int8_t q : quantized) EXPECT_EQ(q, 0);
  }
}

}  // namespace linear_test
}  // namespace tandem::cpu
