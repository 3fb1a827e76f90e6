// Single ops on the real library against float arithmetic on the dequantized inputs, in steps of the output's encoding.
// device_test.cpp runs these for each architecture.
#include <cstdio>
#include <numeric>

#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/api/version_rules.h"
#include "base/half.h"

namespace tandem::qnn {
namespace ops_test {

using test::Fixed;
using test::SmallGraph;

constexpr DataType kU16 = DataType::kFixedU16;

// Half a step for rounding, and as much for the library's 16-bit multiplier from one scale to the other; how much of it
// shows depends on the scales.
constexpr float kProductLimit = 1.0f;

ScaleOffset encoding_of(const std::vector<float>& values, DataType dtype = kU16) {
  const auto [lowest, highest] = std::minmax_element(values.begin(), values.end());
  return encoding_for_range(dtype, *lowest, *highest);
}

void expect_close(SmallGraph& graph, const std::vector<float>& expected, float limit) {
  const Fixed got = graph.run_fixed();
  const float error = test::largest_error(got, expected);
  const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  std::printf("[ measured ] V%d %s: %.3f steps\n", known_arch(test::test_soc()), test->name(), error);
  EXPECT_LE(error, limit);
}

// Makes y = W x for rows of x.
std::vector<float> linear(const std::vector<float>& x, const WeightMatrix& weights) {
  const auto cols = static_cast<size_t>(weights.cols);
  std::vector<float> row(cols);
  std::vector<float> y(x.size() / cols * static_cast<size_t>(weights.rows));
  for (int64_t n = 0; n < weights.rows; ++n) {
    weights.dequantize_row(n, row.data());
    for (size_t m = 0; m < x.size() / cols; ++m) {
      y[m * static_cast<size_t>(weights.rows) + static_cast<size_t>(n)] = static_cast<float>(
          std::inner_product(row.begin(), row.end(), x.begin() + static_cast<ptrdiff_t>(m * cols), 0.0));
    }
  }
  return y;
}

class QnnOps : public ::testing::Test {
 protected:
  void SetUp() override {
    TANDEM_NEEDS_QNN();
    ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  }
};

class QnnLinear : public QnnOps, public ::testing::WithParamInterface<int> {};

TEST_P(QnnLinear, Conv2dU16Lpbq) {
  for (const auto& [k, n] : {std::pair<uint32_t, uint32_t>{256, 128}, {64, 512}, {1024, 32}}) {
    const uint32_t m = 32;
    const Fixed x = test::random_fixed(kU16, m * k, -4, 4, 3);
    const WeightMatrix weights = test::random_weights(WeightFormat::kLpbq4, n, k, GetParam(), 4);
    const auto expected = linear(x.values, weights);
    SmallGraph graph;
    const auto input = graph.input("x", x, {1, 1, m, k});
    const auto w = graph.add(make_conv2d_weights("w", weights));
    const auto y = graph.output("y", kU16, {1, 1, m, n}, encoding_of(expected));
    graph.node("Conv2d", {input, w}, {y}, test::one_by_one());
    expect_close(graph, expected, kProductLimit);
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, QnnLinear, ::testing::Values(16, 32, 64));

TEST_F(QnnOps, Conv2dU16Int8) {
  const uint32_t m = 8, k = 128, n = 64;
  const Fixed x = test::random_fixed(kU16, m * k, -4, 4, 5);
  const WeightMatrix weights = test::random_weights(WeightFormat::kI8, n, k, 0, 6);
  const auto expected = linear(x.values, weights);
  SmallGraph graph;
  const auto input = graph.input("x", x, {1, 1, m, k});
  const auto w = graph.add(make_conv2d_weights("w", weights));
  const auto y = graph.output("y", kU16, {1, 1, m, n}, encoding_of(expected));
  graph.node("Conv2d", {input, w}, {y}, test::one_by_one());
  expect_close(graph, expected, kProductLimit);
}

TEST_F(QnnOps, Conv2dF16) {
  const uint32_t m = 8, k = 128, n = 64;
  WeightMatrix weights;
  weights.format = WeightFormat::kF32;
  weights.rows = n;
  weights.cols = k;
  weights.f32 = test::random_floats(n * k, -0.2f, 0.2f, 7);
  for (float& w : weights.f32) w = f32_from_f16(f16_from_f32(w));
  const TensorSpec x = make_static_f16("unused", {m, k}, test::random_floats(m * k, -1, 1, 8));
  const auto x_bytes = x.data.bytes();
  std::vector<float> x_values;
  for (size_t i = 0; i < x_bytes.size(); i += 2) {
    x_values.push_back(f32_from_f16(static_cast<uint16_t>(x_bytes[i] | x_bytes[i + 1] << 8)));
  }
  const auto expected = linear(x_values, weights);
  SmallGraph graph(nullptr, "graph", {.float16 = true});
  const auto input = graph.input("x", DataType::kFloat16, {1, 1, m, k}, {x_bytes.begin(), x_bytes.end()});
  const auto w = graph.add(make_conv2d_weights("w", weights));
  const auto y = graph.output("y", DataType::kFloat16, {1, 1, m, n});
  graph.node("Conv2d", {input, w}, {y}, test::one_by_one());
  const auto bytes = graph.run();
  ASSERT_TRUE(bytes.ok()) << bytes.error().message;
  float error = 0, most = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const uint16_t half = static_cast<uint16_t>((*bytes)[2 * i] | (*bytes)[2 * i + 1] << 8);
    error = std::max(error, std::abs(f32_from_f16(half) - expected[i]));
    most = std::max(most, std::abs(expected[i]));
  }
  std::printf("[ measured ] Conv2dF16: %.5f of %.2f\n", error, most);
  EXPECT_LE(error, 2e-3f * most);
}

TEST_F(QnnOps, MatMulU16U8) {
  const uint32_t heads = 4, m = 16, k = 64, n = 128;
  const Fixed a = test::random_fixed(kU16, heads * m * k, -3, 3, 9);
  const Fixed b = test::symmetric_u8(test::random_floats(heads * n * k, -2, 2, 10));
  std::vector<float> expected;
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) {
        double sum = 0;
        for (size_t l = 0; l < k; ++l) {
          sum += double{a.values[(h * m + i) * k + l]} * b.values[(h * n + j) * k + l];
        }
        expected.push_back(static_cast<float>(sum));
      }
    }
  }
  SmallGraph graph;
  const auto left = graph.input("a", a, {1, heads, m, k});
  const auto right = graph.input("b", b, {1, heads, n, k});
  const auto y = graph.output("y", kU16, {1, heads, m, n}, encoding_of(expected));
  graph.node("MatMul", {left, right}, {y}, {{"transpose_in1", true}});
  expect_close(graph, expected, kProductLimit);
}

TEST_F(QnnOps, RmsNorm) {
  const uint32_t m = 16, n = 128;
  const Fixed x = test::random_fixed(kU16, m * n, -5, 5, 11);
  const auto gamma = test::random_floats(n, 0.5f, 1.5f, 12);
  const ScaleOffset gamma_encoding = encoding_for_range(kU16, 0.0f, 1.5f);
  std::vector<float> expected;
  for (size_t i = 0; i < m; ++i) {
    double squares = 0;
    for (size_t j = 0; j < n; ++j) squares += double{x.values[i * n + j]} * x.values[i * n + j];
    const double scale = 1 / std::sqrt(squares / n + 1e-6);
    for (size_t j = 0; j < n; ++j) {
      const auto code = static_cast<float>(quantize(kU16, gamma_encoding, gamma[j]) + gamma_encoding.offset);
      expected.push_back(static_cast<float>(x.values[i * n + j] * scale) * code * gamma_encoding.scale);
    }
  }
  SmallGraph graph;
  const auto input = graph.input("x", x, {1, m, n});
  const auto g = graph.add(make_static_fixed("gamma", kU16, {n}, gamma, gamma_encoding));
  const auto y = graph.output("y", kU16, {1, m, n}, encoding_of(expected));
  std::vector<TensorRef> inputs = {input, g};
  if (rms_norm_needs_beta(test::qnn_library().value()->htp_version())) {
    inputs.push_back(graph.add(
        make_static_fixed("beta", DataType::kFixedS32, {n}, std::vector<float>(n, 0.0f), ScaleOffset{1e-6f, 0})));
  }
  graph.node("RmsNorm", inputs, {y}, {{"epsilon", 1e-6f}, {"axes", U32Values{{1}, {2}}}});
  expect_close(graph, expected, 1.1f);
}

// If this fails, version_rules.cpp asks for a beta where none is needed.
TEST_F(QnnOps, RmsNormInFixedPointNeedsABetaInSomeVersions) {
  const uint32_t n = 128;
  SmallGraph graph;
  const auto x = graph.input("x", test::random_fixed(kU16, 16 * n, -5, 5, 11), {1, 16, n});
  const auto g = graph.add(make_static_fixed("gamma", kU16, {n}, std::vector<float>(n, 1.0f), ScaleOffset{1e-4f, 0}));
  const auto y = graph.output("y", kU16, {1, 16, n}, encoding_for_range(kU16, -4, 4));
  graph.node("RmsNorm", {x, g}, {y}, {{"epsilon", 1e-6f}, {"axes", U32Values{{1}, {2}}}});
  EXPECT_EQ(graph.finalize().ok(), !rms_norm_needs_beta(test::qnn_library().value()->htp_version()));
}

TEST_F(QnnOps, Softmax) {
  const uint32_t m = 32, n = 128;
  const Fixed x = test::random_fixed(kU16, m * n, -8, 8, 13);
  std::vector<float> expected;
  for (size_t i = 0; i < m; ++i) {
    double sum = 0;
    for (size_t j = 0; j < n; ++j) sum += std::exp(double{x.values[i * n + j]});
    for (size_t j = 0; j < n; ++j) expected.push_back(static_cast<float>(std::exp(double{x.values[i * n + j]}) / sum));
  }
  SmallGraph graph;
  const auto input = graph.input("x", x, {1, 1, m, n});
  const auto y = graph.output("y", kU16, {1, 1, m, n}, ScaleOffset{1.0f / 65536, 0});
  graph.node("Softmax", {input}, {y});
  expect_close(graph, expected, 5.0f);
}

TEST_F(QnnOps, AddAndMultiply) {
  const uint32_t m = 16, n = 64;
  const Fixed a = test::random_fixed(kU16, m * n, -5, 5, 14);
  const Fixed b = test::random_fixed(kU16, n, -2, 3, 15);
  for (const char* const type : {"ElementWiseAdd", "ElementWiseMultiply"}) {
    std::vector<float> expected;
    for (size_t i = 0; i < m * n; ++i) {
      const float right = b.values[i % n];
      expected.push_back(type == std::string("ElementWiseAdd") ? a.values[i] + right : a.values[i] * right);
    }
    SmallGraph graph;
    const auto left = graph.input("a", a, {1, 1, m, n});
    const auto right = graph.input("b", b, {1, 1, 1, n});
    const auto y = graph.output("y", kU16, {1, 1, m, n}, encoding_of(expected));
    graph.node(type, {left, right}, {y});
    expect_close(graph, expected, 1.2f);
  }
}

TEST_F(QnnOps, GatherIsExactAndReportsABadIndex) {
  const uint32_t rows = 1000, n = 64;
  const std::vector<float> table = test::random_floats(rows * n, -1, 1, 16);
  const ScaleOffset encoding = encoding_of(table);
  const std::vector<int32_t> ids = {0, 999, 500, 7};
  SmallGraph graph;
  const auto* const id_bytes = reinterpret_cast<const uint8_t*>(ids.data());
  const auto indices = graph.input("ids", DataType::kInt32, {4}, {id_bytes, id_bytes + 16});
  const auto data = graph.add(make_static_fixed("table", kU16, {rows, n}, table, encoding));
  const auto y = graph.output("y", kU16, {4, n}, encoding);
  graph.node("Gather", {data, indices}, {y}, {{"axis", int32_t{0}}});
  const Fixed got = graph.run_fixed();
  ASSERT_EQ(got.values.size(), 4 * n);
  for (size_t i = 0; i < got.values.size(); ++i) {
    const float value = table[static_cast<size_t>(ids[i / n]) * n + i % n];
    const auto code = static_cast<float>(quantize(kU16, encoding, value) + encoding.offset);
    EXPECT_EQ(got.values[i], encoding.scale * code);
  }
  std::map<std::string, std::vector<uint8_t>> bad = graph.data();
  bad["ids"][3] = 0x7f;
  const auto failed = SmallGraph::run(graph.graph(), bad);
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.error().message.find("running graph graph"), std::string::npos) << failed.error().message;
}

TEST_F(QnnOps, RotaryEmbedding) {
  const uint32_t heads = 4, tokens = 8, d = 64;
  const Fixed x = test::random_fixed(kU16, heads * tokens * d, -4, 4, 17);
  std::vector<float> cos_values, sin_values;
  for (uint32_t t = 0; t < tokens; ++t) {
    for (uint32_t i = 0; i < d / 2; ++i) {
      const double angle = (t + 100) * std::pow(10000.0, -2.0 * i / d);
      cos_values.push_back(static_cast<float>(std::cos(angle)));
      sin_values.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  const Fixed cosines = test::make_fixed(kU16, cos_values);
  const Fixed sines = test::make_fixed(kU16, sin_values);
  std::vector<float> expected(x.values.size());
  for (size_t h = 0; h < heads; ++h) {
    for (size_t t = 0; t < tokens; ++t) {
      for (size_t i = 0; i < d / 2; ++i) {
        const size_t low = (h * tokens + t) * d + i;
        const float c = cosines.values[t * d / 2 + i], s = sines.values[t * d / 2 + i];
        expected[low] = x.values[low] * c - x.values[low + d / 2] * s;
        expected[low + d / 2] = x.values[low + d / 2] * c + x.values[low] * s;
      }
    }
  }
  SmallGraph graph;
  const auto input = graph.input("x", x, {1, heads, tokens, d});
  const auto c = graph.input("cos", cosines, {1, tokens, d / 2});
  const auto s = graph.input("sin", sines, {1, tokens, d / 2});
  const auto y = graph.output("y", kU16, {1, heads, tokens, d}, encoding_of(expected));
  graph.node("RotaryEmbedding", {input, c, s}, {y});
  expect_close(graph, expected, kProductLimit);
}

}  // namespace ops_test
}  // namespace tandem::qnn
