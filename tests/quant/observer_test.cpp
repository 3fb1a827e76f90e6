// Observers against brute force over the values themselves.
#include "quant/observer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "backends/interface/io_conversion.h"

namespace tandem {
namespace observer_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

enum class Shape { kGaussian, kHeavyTails, kOutliers, kOneSided, kAllNegative };
constexpr Shape kShapes[] = {Shape::kGaussian, Shape::kHeavyTails, Shape::kOutliers, Shape::kOneSided,
                             Shape::kAllNegative};

std::vector<float> draw(Shape shape, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::student_t_distribution<float> student(3.0f);
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const float x = normal(random);
    switch (shape) {
      case Shape::kGaussian: values[i] = 0.3f * x + 0.1f; break;
      case Shape::kHeavyTails: values[i] = student(random); break;
      case Shape::kOutliers: values[i] = i % 997 == 5 ? 300.0f + x : x; break;
      case Shape::kOneSided: values[i] = x / (1.0f + std::exp(-x)); break;  // SiLU
      case Shape::kAllNegative: values[i] = -1.0f - std::fabs(x); break;
    }
  }
  return values;
}

Observer observed(std::span<const float> values) {
  Observer observer("t");
  observer.add(values);
  return observer;
}

ir::Encoding encoding_of(DType dtype, float low, float high, bool symmetric = false) {
  const auto encoding = make_encoding(dtype, low, high, symmetric);
  EXPECT_TRUE(encoding.ok()) << encoding.error().message;
  return encoding.ok() ? *encoding : ir::Encoding{};
}

// The error of the run time's own encoder and decoder.
double true_error(std::span<const float> values, DType dtype, const ir::Encoding& encoding) {
  std::vector<uint16_t> quantized(values.size());
  std::vector<float> back(values.size());
  const auto count = static_cast<int64_t>(values.size());
  ir::encode_row(dtype, encoding, values.data(), count, quantized.data());
  ir::decode_row(dtype, encoding, quantized.data(), count, back.data());
  double sum = 0.0;
  for (size_t i = 0; i < values.size(); ++i) sum += std::pow(static_cast<double>(values[i]) - back[i], 2);
  return sum;
}

double sum_of_squares(std::span<const float> values) {
  double sum = 0.0;
  for (const float x : values) sum += static_cast<double>(x) * x;
  return sum;
}

TEST(Observer, StatisticsOverManyCalls) {
  for (const Shape shape : kShapes) {
    const std::vector<float> values = draw(shape, 100'003, 1);
    Observer observer("t");
    // Calls of all sizes, so that every remainder of the vector loops and both ways of counting occur.
    size_t at = 0;
    for (size_t size = 0; at < values.size(); size = size * 3 / 2 + 1) {
      const size_t count = std::min(size, values.size() - at);
      observer.add(std::span(values).subspan(at, count));
      at += count;
    }
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    EXPECT_EQ(observer.count(), values.size());
    EXPECT_EQ(observer.min(), *low);
    EXPECT_EQ(observer.max(), *high);
    EXPECT_NEAR(observer.mean_square() / (sum_of_squares(values) / static_cast<double>(values.size())), 1.0, 1e-12);
    EXPECT_TRUE(observer.check().ok());

    const Observer at_once = observed(values);
    EXPECT_EQ(at_once.min(), observer.min());
    const auto bins = observer.bins(), same = at_once.bins();
    ASSERT_EQ(bins.size(), same.size());
    for (size_t i = 0; i < bins.size(); ++i) {
      EXPECT_EQ(bins[i].low, same[i].low);
      EXPECT_EQ(bins[i].count, same[i].count);
    }
  }
}

TEST(Observer, BinsHoldTheirValues) {
  for (const Shape shape : kShapes) {
    const std::vector<float> values = draw(shape, 8'000, 2);
    const auto bins = observed(values).bins();
    ASSERT_FALSE(bins.empty());
    double total = 0.0;
    for (size_t i = 0; i < bins.size(); ++i) {
      const auto& bin = bins[i];
      total += bin.count;
      if (i > 0) {
        EXPECT_GE(bin.low, bins[i - 1].high);
      }
      if (bin.low == bin.high) continue;
      // All bins have the same relative width and the right number of values. An edge may belong to either of its
      // neighbours: negative bins include theirs at the low end.
      EXPECT_LE(bin.high - bin.low, std::max(std::fabs(bin.low), std::fabs(bin.high)) / 64.0);
      const auto inside = std::count_if(values.begin(), values.end(), [&](float x) {
        const bool last = i + 1 == bins.size() && x == bin.high, first = i == 0 && x == bin.low;
        return x > 0 ? (x >= bin.low && x < bin.high) || last : (x > bin.low && x <= bin.high) || first;
      });
      EXPECT_EQ(bin.count, static_cast<double>(inside)) << bin.low << " " << bin.high;
    }
    EXPECT_EQ(total, static_cast<double>(values.size()));
  }
}

TEST(Observer, GrowsOverManyOrdersOfMagnitude) {
  // Each value is 1000 times the previous one; three of each, so that the statistics of the last ones are known
  // exactly.
  Observer observer("t");
  double total = 0.0;
  std::vector<float> values;
  for (double x = 1e-40; x < 1e38; x *= 1000.0) {
    const float value = static_cast<float>(x);
    for (const float v : {value, -value, value}) {
      observer.add({&v, 1});
      values.push_back(v);
      total += static_cast<double>(v) * v;
    }
  }
  EXPECT_EQ(observer.count(), values.size());
  EXPECT_EQ(observer.max(), *std::max_element(values.begin(), values.end()));
  EXPECT_EQ(observer.min(), *std::min_element(values.begin(), values.end()));
  EXPECT_NEAR(observer.mean_square() * static_cast<double>(values.size()) / total, 1.0, 1e-12);
  double counted = 0.0;
  for (const auto& bin : observer.bins()) counted += bin.count;
  EXPECT_EQ(counted, static_cast<double>(values.size()));
  // In reverse: bins never move, and the counts are the same.
  Observer falling("t");
  for (auto v = values.rbegin(); v != values.rend(); ++v) falling.add({&*v, 1});
  // All at once: growth in the middle of a call.
  std::vector<float> long_call(70'000, 1e-3f);
  long_call[30'000] = 1e5f;
  long_call[60'000] = -1e12f;
  Observer middle = observed(long_call);
  EXPECT_EQ(middle.max(), 1e5f);
  EXPECT_EQ(middle.min(), -1e12f);

  const auto bins = observer.bins(), same = falling.bins();
  ASSERT_EQ(bins.size(), same.size());
  for (size_t i = 0; i < bins.size(); ++i) {
    EXPECT_EQ(bins[i].low, same[i].low);
    EXPECT_EQ(bins[i].count, same[i].count);
  }
}

TEST(Observer, SmallValuesKeepTheirResolutionBesideHugeOnes) {
  // One value in ten thousand is 10^5 times larger than the rest. A percentile must still resolve the rest.
  std::vector<float> values = draw(Shape::kGaussian, 200'000, 3);
  std::vector<float> sorted = values;
  for (size_t i = 0; i < values.size(); i += 20'000) values[i] = 30'000.0f;
  const auto range = observed(values).choose_range({.method = RangeMethod::kPercentile, .percentile = 99.9});
  ASSERT_TRUE(range.ok());
  std::sort(values.begin(), values.end());
  EXPECT_NEAR(range->high, values[values.size() - 1 - 200], 0.02f * range->high);
  EXPECT_LT(range->high, 3.0f);
}

TEST(Observer, PercentileAgainstSorting) {
  for (const Shape shape : kShapes) {
    std::vector<float> values = draw(shape, 30'011, 4);
    const Observer observer = observed(values);
    std::sort(values.begin(), values.end());
    for (const double percentile : {100.0, 99.9999, 99.99, 99.9, 99.0, 90.0, 51.0}) {
      const auto range = observer.choose_range({.method = RangeMethod::kPercentile, .percentile = percentile});
      ASSERT_TRUE(range.ok());
      const auto outside = static_cast<size_t>((100.0 - percentile) / 100.0 * static_cast<double>(values.size()));
      // Within one bin: a 64th of the value.
      const float low = values[outside], high = values[values.size() - 1 - outside];
      EXPECT_NEAR(range->low, low, std::fabs(low) / 64 + 1e-6f) << percentile;
      EXPECT_NEAR(range->high, high, std::fabs(high) / 64 + 1e-6f) << percentile;
      if (outside == 0) {
        EXPECT_EQ(range->low, low);
        EXPECT_EQ(range->high, high);
      }
    }
  }
  const Observer some = observed(std::vector<float>{1.0f, 2.0f});
  for (const double wrong : {50.0, 0.0, -1.0, 100.1, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_FALSE(some.choose_range({.method = RangeMethod::kPercentile, .percentile = wrong}).ok()) << wrong;
  }
}

TEST(Observer, MseAgainstExhaustiveSearch) {
  for (const Shape shape : kShapes) {
    for (const bool symmetric : {false, true}) {
      const std::vector<float> values = draw(shape, 6000, 5);
      const Observer observer = observed(values);
      const RangeOptions options = {.method = RangeMethod::kMse, .dtype = DType::kU8, .symmetric = symmetric};
      const auto range = observer.choose_range(options);
      ASSERT_TRUE(range.ok());
      const double found = true_error(values, DType::kU8, encoding_of(DType::kU8, range->low, range->high, symmetric));

      // Every pair of ends on a grid that is finer where the range is small.
      double best = std::numeric_limits<double>::infinity();
      for (int i = 0; i < 45; ++i) {
        for (int j = symmetric ? i : 0; j < (symmetric ? i + 1 : 45); ++j) {
          const float far = std::max(-observer.min(), observer.max());
          const float low =
              (symmetric ? -far : std::min(observer.min(), 0.0f)) * std::pow(0.88f, static_cast<float>(i));
          const float high =
              (symmetric ? far : std::max(observer.max(), 0.0f)) * std::pow(0.88f, static_cast<float>(j));
          best = std::min(best, true_error(values, DType::kU8, encoding_of(DType::kU8, low, high, symmetric)));
        }
      }
      const double whole =
          true_error(values, DType::kU8, encoding_of(DType::kU8, observer.min(), observer.max(), symmetric));
      // The exhaustive search sees the values and may overfit them; the histogram must not.
      EXPECT_LE(found, 1.06 * best) << static_cast<int>(shape) << symmetric;
      EXPECT_LE(found, 1.04 * whole) << static_cast<int>(shape) << symmetric;
    }
  }
}

TEST(Observer, MseClipsWhatIsWorthIt) {
  // Gaussian values in 8 bits: 40.57 dB is the best that a uniform quantizer of 256 steps can achieve.
  const std::vector<float> values = draw(Shape::kGaussian, 400'000, 6);
  std::vector<float> centered(values);
  for (float& x : centered) x -= 0.1f;
  const Observer observer = observed(centered);
  const auto range = observer.choose_range({.method = RangeMethod::kMse, .dtype = DType::kU8});
  ASSERT_TRUE(range.ok());
  const ir::Encoding encoding = encoding_of(DType::kU8, range->low, range->high);
  const double sqnr = 10.0 * std::log10(sum_of_squares(centered) / true_error(centered, DType::kU8, encoding));
  EXPECT_NEAR(sqnr, 40.57, 0.05);
  EXPECT_NEAR(observer.quality(DType::kU8, encoding).sqnr_db, sqnr, 0.05);
  // With 16 bits clipping pays off less, so less is clipped.
  const auto fine = observer.choose_range({.method = RangeMethod::kMse, .dtype = DType::kU16});
  ASSERT_TRUE(fine.ok());
  EXPECT_GT(fine->high - fine->low, range->high - range->low);
}

TEST(Observer, QualityAgainstMeasurement) {
  for (const Shape shape : kShapes) {
    const std::vector<float> values = draw(shape, 60'000, 7);
    const Observer observer = observed(values);
    for (const DType dtype : {DType::kU8, DType::kU16}) {
      for (const float part : {1.0f, 0.5f, 0.05f}) {
        const ir::Encoding encoding = encoding_of(dtype, observer.min() * part, observer.max() * part);
        const EncodingQuality quality = observer.quality(dtype, encoding);
        const double sqnr = 10.0 * std::log10(sum_of_squares(values) / true_error(values, dtype, encoding));
        EXPECT_NEAR(quality.sqnr_db, sqnr, 0.15) << static_cast<int>(shape) << " " << part;
        const Interval ends = encoded_range(dtype, encoding);
        const float half = encoding.scale / 2;
        const auto outside = std::count_if(values.begin(), values.end(),
                                           [&](float x) { return x < ends.low - half || x > ends.high + half; });
        const double share = static_cast<double>(outside) / static_cast<double>(values.size());
        EXPECT_NEAR(quality.clipped, share, 0.05 * share + 2e-4);
        if (part == 1.0f) {
          EXPECT_EQ(quality.clipped, 0.0);
        }
      }
    }
  }
}

TEST(Observer, HandlesConstantTensors) {
  for (const float value : {0.0f, -0.0f, 1.0f, -3.25f, 1e-30f, 1e20f, -1e-41f}) {
    const Observer observer = observed(std::vector<float>(100, value));
    for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kMse}) {
      const auto range = observer.choose_range({.method = method});
      ASSERT_TRUE(range.ok()) << range.error().message;
      if (method != RangeMethod::kMse) {  // This one may end within half a step of the value.
        EXPECT_LE(range->low, value);
        EXPECT_GE(range->high, value);
      }
      for (const bool symmetric : {false, true}) {
        const ir::Encoding encoding = encoding_of(DType::kU16, range->low, range->high, symmetric);
        const EncodingQuality quality = observer.quality(DType::kU16, encoding);
        EXPECT_EQ(quality.clipped, 0.0);
        // A value far below the smallest span is rounded to zero.
        if (std::fabs(value) > 1e-3f) {
          EXPECT_GT(quality.sqnr_db, 80.0);
        }
      }
    }
    double plotted = 0.0;
    for (const double count : observer.histogram(7)) plotted += count;
    EXPECT_NEAR(plotted, 100.0, 1e-6);
  }
  EXPECT_FALSE(std::signbit(observed(std::vector<float>{-0.0f}).min()));
}

TEST(Observer, NotFiniteValuesAreCountedAndNamed) {
  Observer observer("layers.3.mlp.down.out");
  std::vector<float> values = draw(Shape::kGaussian, 20'000, 8);
  const Observer clean = observed(values);
  EXPECT_FALSE(observer.check().ok()) << "nothing was seen yet";
  values.insert(values.begin() + 100, kNaN);
  values.insert(values.begin() + 9000, {kInfinity, -kInfinity, -kNaN});
  observer.add(values);
  EXPECT_EQ(observer.count(), 20'000u);
  EXPECT_EQ(observer.non_finite_count(), 4u);
  EXPECT_EQ(observer.min(), clean.min());
  EXPECT_EQ(observer.max(), clean.max());
  EXPECT_NEAR(observer.mean_square(), clean.mean_square(), 1e-12);
  const auto range = observer.choose_range({});
  ASSERT_FALSE(range.ok());
  EXPECT_NE(range.error().message.find("layers.3.mlp.down.out: 4 of 20004 values"), std::string::npos)
      << range.error().message;
  Observer broken("b");
  broken.add(std::vector<float>(50, kNaN));
  EXPECT_EQ(broken.count(), 0u);
  EXPECT_FALSE(broken.choose_range({}).ok());
  EXPECT_TRUE(broken.bins().empty());
  EXPECT_TRUE(broken.histogram(8).empty());
}

TEST(Observer, MergeIsAsIfAdded) {
  const std::vector<float> a = draw(Shape::kGaussian, 5000, 9), b = draw(Shape::kOutliers, 7000, 10);
  Observer both("t");
  both.add(a);
  both.add(b);
  for (const bool small_first : {true, false}) {
    Observer merged = observed(small_first ? a : b);
    merged.merge(observed(small_first ? b : a));
    merged.merge(Observer("empty"));
    EXPECT_EQ(merged.count(), both.count());
    EXPECT_EQ(merged.min(), both.min());
    EXPECT_EQ(merged.max(), both.max());
    EXPECT_NEAR(merged.mean_square(), both.mean_square(), 1e-9);
    const auto bins = merged.bins(), same = both.bins();
    ASSERT_EQ(bins.size(), same.size());
    for (size_t i = 0; i < bins.size(); ++i) EXPECT_EQ(bins[i].count, same[i].count);
  }
  Observer empty("e");
  empty.merge(both);
  EXPECT_EQ(empty.min(), both.min());
  EXPECT_EQ(empty.count(), both.count());
}

TEST(Observer, HistogramForPlots) {
  const std::vector<float> values = draw(Shape::kHeavyTails, 40'000, 11);
  const Observer observer = observed(values);
  const std::vector<double> parts = observer.histogram(20);
  ASSERT_EQ(parts.size(), 20u);
  const double low = observer.min(), width = (static_cast<double>(observer.max()) - low) / 20.0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const double begin = low + width * static_cast<double>(i);
    const auto exact = static_cast<double>(
        std::count_if(values.begin(), values.end(), [&](float x) { return x >= begin && x < begin + width; }));
    EXPECT_NEAR(parts[i], exact, 0.05 * exact + 40.0) << i;
  }
}

}  // namespace observer_test
}  // namespace tandem
