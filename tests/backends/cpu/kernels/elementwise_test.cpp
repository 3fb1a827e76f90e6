// Element-wise kernels, norms, rope, conversions and argmax, against double precision.
#include <cstring>

#include "backends/cpu/kernels/kernel_test.h"

namespace tandem::cpu {
namespace elementwise_test {

class Elementwise : public EachIsa {};
TANDEM_EACH_ISA(Elementwise);

// Floats of all magnitudes and both signs, plus the special ones, in a number that no vector width divides.
std::vector<float> all_magnitudes(double low, double high, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    const double magnitude = low * std::pow(high / low, static_cast<double>(i) / static_cast<double>(count - 1));
    values.push_back(static_cast<float>(magnitude));
    values.push_back(static_cast<float>(-magnitude));
  }
  for (const float v :
       {0.0f, -0.0f, 1e-45f, -1e-45f, 88.7f, -88.7f, 104.0f, -104.0f, 1e30f, -1e30f, 3.4e38f, -3.4e38f, kNan, 0.625f}) {
    values.push_back(v);
  }
  return values;
}

double silu_reference(double x) { return x / (1 + std::exp(-x)); }
double gelu_reference(double x) {
  const double u = std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

double worst_ulps(const std::vector<float>& x, const std::vector<float>& y, double (*reference)(double), float floor) {
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = reference(double{x[i]});
    // Where the result is denormal or nearly, the absolute error counts.
    const double error =
        std::abs(want) < double{floor} ? std::abs(double{y[i]} - want) / double{floor} : ulps(y[i], want);
    if (!(error <= worst)) {
      worst = std::isnan(error) ? 1e30 : error;
      if (worst > 4) ADD_FAILURE() << "at " << x[i] << ": " << y[i] << " instead of " << want;
    }
  }
  return worst;
}

TEST_P(Elementwise, SiluIsAccurate) {
  const std::vector<float> x = all_magnitudes(1e-30, 1e3, 100001);
  std::vector<float> y(x.size());
  k().silu(x.data(), static_cast<int64_t>(x.size()), y.data());
  const double worst = worst_ulps(x, y, silu_reference, 2e-36f);
  std::printf("[ accuracy ] silu: %.2f ulp\n", worst);
  EXPECT_LE(worst, 3.2);
}

TEST_P(Elementwise, GeluIsAccurate) {
  std::vector<float> x = all_magnitudes(1e-30, 4.5, 100001);
  std::vector<float> y(x.size());
  k().gelu_tanh(x.data(), static_cast<int64_t>(x.size()), y.data());
  // The exponent 2u is rounded to float before exp: its relative error is |2u| times that rounding.
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = gelu_reference(double{x[i]});
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(y[i]));
      continue;
    }
    ASSERT_NEAR(y[i], want, 2.5e-6 * std::abs(want) + 1e-37) << "at " << x[i];
    if (x[i] > -1.5f) {
      ASSERT_LE(ulps(y[i], want), 6) << "at " << x[i];
    }
  }
}

TEST_P(Elementwise, SoftcapIsAccurate) {
  const std::vector<float> x = all_magnitudes(1e-30, 1e3, 100001);
  std::vector<float> y(x.size());
  k().softcap(x.data(), 1.0f, static_cast<int64_t>(x.size()), y.data());
  const double worst = worst_ulps(
      x, y, [](double v) { return std::tanh(v); }, 1e-37f);
  std::printf("[ accuracy ] tanh: %.2f ulp\n", worst);
  EXPECT_LE(worst, 1.4);
  const float in[3] = {100.0f, -7.0f, 1e9f};
  float out[3];
  k().softcap(in, 30.0f, 3, out);
  for (int i = 0; i < 3; ++i) EXPECT_NEAR(out[i], 30 * std::tanh(double{in[i]} / 30), 1e-5);
}

TEST_P(Elementwise, InfinitiesAndNan) {
  const float in[4] = {kInf, -kInf, kNan, -1e38f};
  float y[4];
  for (const auto function : {k().silu, k().gelu_tanh}) {
    function(in, 4, y);
    EXPECT_EQ(y[0], kInf);
    EXPECT_EQ(y[1], 0.0f);
    EXPECT_TRUE(std::isnan(y[2]));
    EXPECT_EQ(y[3], 0.0f);
  }
  k().softcap(in, 20.0f, 4, y);
  EXPECT_EQ(y[0], 20.0f);
  EXPECT_EQ(y[1], -20.0f);
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], -20.0f);
}

TEST_P(Elementwise, SimpleOnesAreExactAtAnyLengthAndInPlace) {
  Random random(20);
  for (int64_t count = 0; count < 70; ++count) {
    const size_t n = static_cast<size_t>(count);
    const std::vector<float> a = random.normals(count), b = random.normals(count);
    std::vector<float> sum(n + 1, 7.0f), product = sum, scaled = sum, in_place = a, silu_whole(n), gate_up(n);
    k().add(a.data(), b.data(), count, sum.data());
    k().mul(a.data(), b.data(), count, product.data());
    k().scale(a.data(), 3.0f, count, scaled.data());
    k().add(in_place.data(), b.data(), count, in_place.data());
    k().silu(a.data(), count, silu_whole.data());
    k().silu_mul(a.data(), b.data(), count, gate_up.data());
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(sum[i], a[i] + b[i]);
      ASSERT_EQ(product[i], a[i] * b[i]);
      ASSERT_EQ(scaled[i], a[i] * 3.0f);
      ASSERT_EQ(in_place[i], sum[i]);
      ASSERT_EQ(gate_up[i], silu_whole[i] * b[i]);
      float alone;  // An element's result does not depend on its position.
      k().silu(&a[i], 1, &alone);
      ASSERT_EQ(alone, silu_whole[i]);
    }
    k().gelu_tanh(a.data(), count, silu_whole.data());
    k().gelu_tanh_mul(a.data(), b.data(), count, gate_up.data());
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(gate_up[i], silu_whole[i] * b[i]);
    EXPECT_EQ(sum[n], 7.0f);
    EXPECT_EQ(product[n], 7.0f);
    EXPECT_EQ(scaled[n], 7.0f);
  }
}

TEST_P(Elementwise, NormsMatchDoublePrecision) {
  Random random(21);
  for (const int64_t dim : {1, 2, 3, 7, 8, 15, 16, 31, 64, 65, 100, 257, 1000, 4096, 8191}) {
    const int64_t rows = 3;
    std::vector<float> x = random.normals(rows * dim, 5.0f);
    for (float& v : x) v += 1.0f;
    const std::vector<float> weight = random.normals(dim), bias = random.normals(dim);
    std::vector<float> rms(x.size()), layer(x.size()), in_place = x;
    k().rms_norm(x.data(), rows, dim, weight.data(), 1.0f, 1e-5f, rms.data());
    k().layer_norm(x.data(), rows, dim, weight.data(), bias.data(), 1e-5f, layer.data());
    k().rms_norm(in_place.data(), rows, dim, weight.data(), 1.0f, 1e-5f, in_place.data());
    EXPECT_EQ(in_place, rms);
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, squares = 0, variance = 0;
      for (int64_t i = 0; i < dim; ++i) {
        const double v = double{x[static_cast<size_t>(r * dim + i)]};
        mean += v / static_cast<double>(dim);
        squares += v * v / static_cast<double>(dim);
      }
      for (int64_t i = 0; i < dim; ++i) {
        variance += std::pow(double{x[static_cast<size_t>(r * dim + i)]} - mean, 2) / static_cast<double>(dim);
      }
      for (int64_t i = 0; i < dim; ++i) {
        const size_t at = static_cast<size_t>(r * dim + i), c = static_cast<size_t>(i);
        const double want_rms = double{x[at]} / std::sqrt(squares + 1e-5) * (double{weight[c]} + 1);
        ASSERT_NEAR(rms[at], want_rms, 1e-6 * std::abs(want_rms)) << "dim " << dim;
        const double want = (double{x[at]} - mean) / std::sqrt(variance + 1e-5) * double{weight[c]} + double{bias[c]};
        ASSERT_NEAR(layer[at], want, 3e-6 * (1 + std::abs(want))) << "dim " << dim;
      }
    }
  }
}

TEST_P(Elementwise, RopeRotates) {
  Random random(22);
  for (const bool interleaved : {false, true}) {
    for (const int64_t half : {1, 3, 4, 8, 16, 20, 32, 64}) {
      const int64_t heads = 3, dim = 2 * half + 5;
      const std::vector<float> x = random.normals(heads * dim);
      std::vector<float> y(x.size()), in_place = x, cos, sin;
      for (int64_t i = 0; i < half; ++i) {
        const float angle = random.normal(10.0f);
        cos.push_back(std::cos(angle));
        sin.push_back(std::sin(angle));
      }
      k().rope(x.data(), heads, dim, half, cos.data(), sin.data(), interleaved, y.data());
      k().rope(in_place.data(), heads, dim, half, cos.data(), sin.data(), interleaved, in_place.data());
      ASSERT_EQ(in_place, y);
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t i = 0; i < half; ++i) {
          const size_t a = static_cast<size_t>(h * dim + (interleaved ? 2 * i : i));
          const size_t b = a + static_cast<size_t>(interleaved ? 1 : half);
          const double c = double{cos[static_cast<size_t>(i)]}, s = double{sin[static_cast<size_t>(i)]};
          ASSERT_NEAR(y[a], double{x[a]} * c - double{x[b]} * s, 1e-6);
          ASSERT_NEAR(y[b], double{x[b]} * c + double{x[a]} * s, 1e-6);
        }
        for (int64_t i = 2 * half; i < dim; ++i) {
          ASSERT_EQ(y[static_cast<size_t>(h * dim + i)], x[static_cast<size_t>(h * dim + i)]);
        }
      }
    }
  }
}

// Against the definition: entry (i, j) of Sylvester's matrix is -1 to the number of ones in i & j.
TEST_P(Elementwise, HadamardMultipliesEachHead) {
  Random random(23);
  const KernelTable& slowest = *available_kernels()[0];
  for (int64_t dim = 1; dim <= 1024; dim *= 2) {
    const int64_t heads = 3;
    const std::vector<float> x = random.normals(heads * dim);
    std::vector<float> y(x.size()), in_place = x, portable(x.size());
    k().hadamard(x.data(), heads, dim, y.data());
    k().hadamard(in_place.data(), heads, dim, in_place.data());
    slowest.hadamard(x.data(), heads, dim, portable.data());
    ASSERT_EQ(in_place, y);
    ASSERT_EQ(portable, y) << "not the same bits on all instruction sets";
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t j = 0; j < dim; ++j) {
        double sum = 0.0;
        for (int64_t i = 0; i < dim; ++i) {
          const bool odd = __builtin_popcountll(static_cast<uint64_t>(i & j)) % 2 != 0;
          sum += (odd ? -1.0 : 1.0) * double{x[static_cast<size_t>(h * dim + i)]};
        }
        ASSERT_NEAR(y[static_cast<size_t>(h * dim + j)], sum / std::sqrt(static_cast<double>(dim)), 2e-6) << dim;
      }
    }
  }
}

TEST_P(Elementwise, ArgmaxTakesTheFirstLargest) {
  Random random(24);
  for (int64_t count = 1; count < 200; ++count) {
    std::vector<float> x;
    for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<float>(random.integer(-3, 3)));
    for (int64_t i = 0; i < count; i += 5) x[static_cast<size_t>(i)] = kNan;
    if (count == 1) x[0] = -5;
    int64_t want = -1;
    for (int64_t i = 0; i < count; ++i) {
      const float v = x[static_cast<size_t>(i)];
      if (!std::isnan(v) && (want < 0 || v > x[static_cast<size_t>(want)])) want = i;
    }
    ASSERT_EQ(k().argmax(x.data(), count), want) << count;
  }
  const std::vector<float> lowest = {kNan, -kInf, -kInf}, nothing = {kNan, kNan};
  EXPECT_EQ(k().argmax(lowest.data(), 3), 1);
  EXPECT_EQ(k().argmax(nothing.data(), 2), 0);
}

}  // namespace elementwise_test
}  // namespace tandem::cpu
