// Linear layers with int16 activations: on every kernel set, against exact sums and against the reference.
#include <gtest/gtest.h>

#include <random>

#include "backends/cpu/execute/int16_linear.h"
#include "backends/interface/method_memory.h"
#include "eval/tested_model.h"
#include "numerics/fake_quant.h"
#include "support/arranged_values.h"
#include "support/compiled_model.h"
#include "support/score_rows.h"

namespace tandem {
namespace int16_test {

constexpr float kUntouched = 12345.678f;

struct Shape {
  int64_t rows, cols, tokens;
};

std::vector<float> normals(int64_t count, float scale, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// Random int8 values, or lpbq4 with multipliers.
WeightMatrix random_matrix(WeightFormat format, const Shape& shape) {
  std::mt19937 random(5);
  WeightMatrix m;
  m.format = format;
  m.rows = shape.rows;
  m.cols = shape.cols;
  m.block = format == WeightFormat::kLpbq4 ? 32 : 0;
  const int top = format == WeightFormat::kLpbq4 ? 7 : 127;
  for (int64_t i = 0; i < shape.rows * shape.cols; ++i) {
    m.quantized.push_back(static_cast<int8_t>(std::uniform_int_distribution<int>(-top - (top == 7), top)(random)));
  }
  for (int64_t r = 0; r < shape.rows; ++r) m.scales.push_back(0.001f + 0.0001f * static_cast<float>(r % 7));
  if (format == WeightFormat::kLpbq4) {
    for (int64_t i = 0; i < shape.rows * m.blocks_per_row(); ++i) {
      m.multipliers.push_back(static_cast<uint8_t>(std::uniform_int_distribution<int>(1, 16)(random)));
    }
  }
  return m;
}

// All of it, in two calls over ranges of panels, with a gap after each token.
std::vector<float> run_int16(const cpu::KernelTable& kernels, const PackedMatrix& w, const std::vector<float>& x,
                             int64_t tokens, const float* bias) {
  const int64_t stride = w.padded_cols(), y_stride = w.rows + 3;
  std::vector<int8_t> quantized(static_cast<size_t>(2 * tokens * stride));
  std::vector<float> scales(static_cast<size_t>(2 * tokens));
  kernels.quantize_rows_int16(x.data(), w.cols, tokens, w.cols, quantized.data(), stride, scales.data());
  const AlignedMemory scratch = allocate_aligned(cpu::int16_linear_scratch(kernels, w, tokens));
  std::vector<float> y(static_cast<size_t>(tokens * y_stride), kUntouched);
  cpu::LinearTask task;
  task.weight = &w;
  task.tokens = tokens;
  const auto arranged = test::arranged_values(kernels, quantized.data(), stride, 2 * tokens, stride);
  task.quantized = {quantized.data(), stride, scales.data(), arranged.data()};
  task.bias = bias;
  task.y = y.data();
  task.y_stride = y_stride;
  task.scratch = scratch.get();
  const int64_t middle = w.panels() / 3;
  for (const auto& [begin, end] : {std::pair{int64_t{0}, middle}, std::pair{middle, w.panels()}}) {
    task.panel_begin = begin;
    task.panel_end = end;
    cpu::int16_linear(kernels, task);
  }
  return y;
}

TEST(Int16Linear, IsTheProductWithInputsIn16Bits) {
  // More panels and tokens than are computed at once; one row and one token.
  for (const Shape& shape : {Shape{700, 96, 5}, Shape{20, 70, 200}, Shape{1, 33, 1}, Shape{530, 64, 97}}) {
    for (const WeightFormat format : {WeightFormat::kI8, WeightFormat::kLpbq4}) {
      const WeightMatrix m = random_matrix(format, shape);
      const PackedStorage storage = pack_matrix(m);
      const PackedMatrix w = storage.view();
      std::vector<float> x = normals(shape.tokens * shape.cols, 1.0f, 8);
      for (int64_t t = 0; t < shape.tokens; ++t) x[static_cast<size_t>(t * shape.cols + t % shape.cols)] *= 100.0f;
      const std::vector<float> bias = normals(shape.rows, 1.0f, 9);
      std::vector<float> rounded = x;
      for (int64_t t = 0; t < shape.tokens; ++t) {
        fake_quantize_row_i16(
            std::span(rounded).subspan(static_cast<size_t>(t * shape.cols), static_cast<size_t>(shape.cols)));
      }
      std::vector<float> row(static_cast<size_t>(shape.cols));
      std::vector<double> want(static_cast<size_t>(shape.tokens * shape.rows)), size = want;
      for (int64_t r = 0; r < shape.rows; ++r) {
        m.dequantize_row(r, row.data());
        for (int64_t t = 0; t < shape.tokens; ++t) {
          const auto at = static_cast<size_t>(t * shape.rows + r);
          want[at] = double{bias[static_cast<size_t>(r)]};
          for (int64_t c = 0; c < shape.cols; ++c) {
            const double product =
                double{row[static_cast<size_t>(c)]} * double{rounded[static_cast<size_t>(t * shape.cols + c)]};
            want[at] += product;
            size[at] += std::abs(product);
          }
        }
      }
      for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
        const auto y = run_int16(*kernels, w, x, shape.tokens, bias.data());
        for (int64_t t = 0; t < shape.tokens; ++t) {
          for (int64_t r = 0; r < shape.rows + 3; ++r) {
            const float got = y[static_cast<size_t>(t * (shape.rows + 3) + r)];
            if (r >= shape.rows) {
              ASSERT_EQ(got, kUntouched);
              continue;
            }
            const auto at = static_cast<size_t>(t * shape.rows + r);
            ASSERT_NEAR(got, want[at], 1e-6 * (size[at] + 1))
                << kernels->isa << " " << weight_format_name(format) << ", token " << t << ", row " << r;
          }
        }
        // Bit for bit the result of one token alone.
        const int64_t last = shape.tokens - 1;
        const std::vector<float> one(x.end() - static_cast<std::ptrdiff_t>(shape.cols), x.end());
        const auto alone = run_int16(*kernels, w, one, 1, bias.data());
        EXPECT_TRUE(std::equal(alone.begin(), alone.end(), y.begin() + last * (shape.rows + 3))) << kernels->isa;
      }
    }
  }
}

std::vector<float> logits_of(const std::filesystem::path& file, Phase phase, std::span<const int32_t> tokens) {
  TestedModelOptions options;
  options.phase = phase;
  options.engine.threads = 2;
  options.context = static_cast<int64_t>(tokens.size());
  const auto model = TestedModel::open(file, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return test::score_rows(**model, tokens);
}

class Int16OnCpu : public testing::TestWithParam<const char*> {};

// Where an activation lies on the boundary between two quantized values, device and reference differ by a step, which
// is 256 times smaller than int8's: no token is far off.
TEST_P(Int16OnCpu, RunsLikeItsReference) {
  const auto tokens = test::golden_prompt(GetParam());
  for (const char* recipe : {R"({"base": "w4", "kv": "fp32", "activations": "int16"})",
                             R"({"base": "w8", "kv": "fp32", "rules": [{"match": "layers.*.attention.[qk]",
                                 "activations": "int16"}, {"match": "*.down", "activations": "int16"}]})"}) {
    const auto file = test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = recipe});
    const auto reference = logits_of(file, Phase::kQdq, tokens);
    const bool all = std::string_view(recipe).find("rules") == std::string_view::npos;
    for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
      const test::ScopedIsa isa(kernels->isa);
      const double db = test::sqnr_db(reference, test::score_file(file, tokens));
      EXPECT_GE(db, all ? 60.0 : 25.0) << kernels->isa;
      RecordProperty((all ? "all_" : "some_") + std::string(kernels->isa), std::to_string(db));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Int16OnCpu, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace int16_test
}  // namespace tandem
