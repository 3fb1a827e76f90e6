// From an observer's histogram to a range, an encoding and its error.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "quant/observer.h"

namespace tandem {
namespace {

using Bin = Observer::Bin;
using Bins = std::vector<Bin>;

// As for weights: beyond this, products of scales overflow floats.
constexpr float kLargestValue = 0x1p100f;

// Rounds to the nearest integer, ties to even, for |x| < 2^51: adding 1.5 * 2^52 leaves no bits for a fraction.
double round_small(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

// The grid of an encoding: multiples of `step` from low to high.
struct Grid {
  double step = 0.0;
  double inverse = 0.0;
  double low = 0.0;
  double high = 0.0;
};

Grid grid_of(DType dtype, const ir::Encoding& encoding) {
  const double step = encoding.scale;
  return {step, 1.0 / step, step * static_cast<double>(dtype_min(dtype) - encoding.zero_point),
          step * static_cast<double>(dtype_max(dtype) - encoding.zero_point)};
}

// Integral of (distance to the nearest multiple of the step)^2 from 0 to x.
double rounding_integral(const Grid& grid, double x) {
  const double n = round_small(x * grid.inverse);
  const double rest = x - n * grid.step;
  return n * (grid.step * grid.step * grid.step / 12.0) + rest * rest * rest / 3.0;
}

double cube(double x) { return x * x * x; }

// Sum of the squared errors of a bin's values, assumed to be evenly distributed.
double bin_error(const Grid& grid, const Bin& bin) {
  const double width = bin.high - bin.low;
  if (!(width > 0.0)) {
    const double x = std::clamp(bin.low, grid.low, grid.high);
    const double error = bin.low - round_small(x * grid.inverse) * grid.step;
    return bin.count * error * error;
  }
  double integral = 0.0;
  if (bin.low < grid.low) integral += (cube(grid.low - bin.low) - cube(std::max(grid.low - bin.high, 0.0))) / 3.0;
  if (bin.high > grid.high) integral += (cube(bin.high - grid.high) - cube(std::max(bin.low - grid.high, 0.0))) / 3.0;
  const double low = std::max(bin.low, grid.low), high = std::min(bin.high, grid.high);
  if (low < high) integral += std::max(rounding_integral(grid, high) - rounding_integral(grid, low), 0.0);
  return bin.count * (integral / width);
}

double squared_error(const Bins& bins, const Grid& grid) {
  double sum = 0.0;
  for (const Bin& bin : bins) sum += bin_error(grid, bin);
  return sum;
}

// The summed distance of the values beyond an end from that end, as a function of the end; for the high end.
//
// Moving an end inward by d costs 2 d times this sum in clipping error, whichever end it is, and gains in rounding
// error through the step, which depends only on the distance between the ends. So at the best range both ends have the
// same sum (or one of them is at zero, or at the last value with a sum of zero): the search has one dimension, not two.
class Excess {
 public:
  // The positive bins, or, mirrored, the negative ones.
  Excess(const Bins& bins, bool mirror) {
    for (const Bin& bin : bins) {
      const Bin side = mirror ? Bin{-bin.high, -bin.low, bin.count} : bin;
      if (side.high > 0.0) bins_.push_back({std::max(side.low, 0.0), side.high, side.count});
    }
    // From the outermost inward.
    std::sort(bins_.begin(), bins_.end(), [](const Bin& a, const Bin& b) { return a.high > b.high; });
    double sum = 0.0, outside = 0.0, edge = bins_.empty() ? 0.0 : bins_.front().high;
    for (const Bin& bin : bins_) {
      points_.push_back({bin.high, sum += outside * (edge - bin.high)});
      sum += (outside + bin.count / 2.0) * (bin.high - bin.low);
      outside += bin.count;
      edge = bin.low;
      points_.push_back({edge, sum});
    }
    points_.push_back({0.0, sum + outside * edge});
  }

  double at_zero() const { return points_.back().excess; }

  double end_for(double excess) const {
    for (size_t i = 1; i < points_.size(); ++i) {
      const Point &outer = points_[i - 1], &inner = points_[i];
      if (inner.excess < excess) continue;
      const double rise = inner.excess - outer.excess;
      const double share = rise > 0.0 ? (excess - outer.excess) / rise : 0.0;
      return outer.end + (inner.end - outer.end) * std::clamp(share, 0.0, 1.0);
    }
    return 0.0;
  }

 private:
  struct Point {
    double end;
    double excess;
  };
  Bins bins_;
  std::vector<Point> points_;
};

class MseSearch {
 public:
  MseSearch(const Bins& bins, const RangeOptions& options, Interval whole) : bins_(bins), options_(options) {
    try_range(whole.low, whole.high);
  }

  Interval run() {
    if (options_.symmetric) {
      scan_magnitudes();
    } else {
      scan_excesses();
    }
    // The scans are coarse, and the rule of equal sums assumes a rounding error of step^2 / 12, which does not hold if
    // many values are smaller than a step. Hence a local search.
    for (double factor = 1.1; factor > 1.003; factor = std::sqrt(factor)) {
      for (const double f : {factor, 1.0 / factor}) {
        const Interval middle = range_;
        try_range(middle.low * f, middle.high * f);
        if (options_.symmetric) continue;
        try_range(middle.low, middle.high * f);
        try_range(middle.low * f, middle.high);
      }
    }
    return range_;
  }

 private:
  void scan_magnitudes() {
    constexpr int kOctaves = 16, kStepsPerOctave = 8;
    const double whole = std::max(-range_.low, range_.high);
    for (int i = 0; i < kOctaves * kStepsPerOctave; ++i) {
      const double end = whole * std::exp2(-static_cast<double>(i) / kStepsPerOctave);
      try_range(-end, end);
    }
  }

  void scan_excesses() {
    const Excess above(bins_, false), below(bins_, true);
    const auto try_excess = [&](double excess) { return try_range(-below.end_for(excess), above.end_for(excess)); };
    constexpr int kHalvings = 40;  // From all values outside to one among many.
    double excess = std::max(above.at_zero(), below.at_zero()), best = 0.0;
    for (int i = 0; i < kHalvings; ++i, excess /= 2.0) {
      if (try_excess(excess)) best = excess;
    }
    for (double factor = 1.5; best > 0.0 && factor > 1.01; factor = std::sqrt(factor)) {
      const double middle = best;
      if (try_excess(middle * factor)) best = middle * factor;
      if (try_excess(middle / factor)) best = middle / factor;
    }
  }

  // Keeps the range if it is the best so far.
  bool try_range(double low, double high) {
    const float low_end = static_cast<float>(low), high_end = static_cast<float>(high);
    const auto encoding = make_encoding(options_.dtype, low_end, high_end, options_.symmetric);
    if (!encoding.ok()) return false;
    const double error = squared_error(bins_, grid_of(options_.dtype, *encoding));
    if (found_ && !(error < error_)) return false;
    found_ = true;
    error_ = error;
    range_ = {low_end, high_end};
    return true;
  }

  const Bins& bins_;
  const RangeOptions& options_;
  bool found_ = false;
  double error_ = 0.0;
  Interval range_;
};

// The end beyond which `outside` values lie, counting from the last bin (or from the first, with mirrored signs).
double end_outside(const Bins& bins, double outside, bool low_end) {
  for (size_t i = 0; i < bins.size(); ++i) {
    const Bin& bin = low_end ? bins[i] : bins[bins.size() - 1 - i];
    if (outside < bin.count) {
      const double share = outside / bin.count, width = bin.high - bin.low;
      return low_end ? bin.low + share * width : bin.high - share * width;
    }
    outside -= bin.count;
  }
  return 0.0;
}

}  // namespace

std::string_view range_method_name(RangeMethod method) {
  switch (method) {
    case RangeMethod::kMinMax: return "minmax";
    case RangeMethod::kPercentile: return "percentile";
    case RangeMethod::kMse: return "mse";
  }
  return "unknown";
}

Result<RangeMethod> parse_range_method(std::string_view name) {
  for (const RangeMethod method : {RangeMethod::kMinMax, RangeMethod::kPercentile, RangeMethod::kMse}) {
    if (range_method_name(method) == name) return method;
  }
  return invalid_argument("unknown range method \"{}\" (possible: minmax, percentile, mse)", name.substr(0, 64));
}

Result<ir::Encoding> make_encoding(DType dtype, float low, float high, bool symmetric) {
  if (dtype != DType::kU8 && dtype != DType::kU16) {
    return unsupported("an encoding of dtype {} (possible: u8, u16)", dtype_name(dtype));
  }
  if (!(low <= high) || std::fabs(low) > kLargestValue || std::fabs(high) > kLargestValue) {
    return invalid_argument("no encoding for the range {} to {}: it should go upward and stay within +-2^100", low,
                            high);
  }
  double from = std::min(low, 0.0f), to = std::max(high, 0.0f);
  if (to - from < kSmallestSpan) {
    const double span = to - from;
    from = span > 0.0 ? from * (kSmallestSpan / span) : -kSmallestSpan / 2.0;
    to = span > 0.0 ? to * (kSmallestSpan / span) : kSmallestSpan / 2.0;
  }
  const int32_t last = static_cast<int32_t>(dtype_max(dtype));
  const int32_t middle = last / 2 + 1;
  const double wanted = symmetric ? std::max(to / (last - middle), -from / middle) : (to - from) / last;
  // Rounded up, so that the range is covered: rounding the zero point can miss half a step at most.
  float scale = static_cast<float>(wanted);
  if (static_cast<double>(scale) < wanted) scale = std::nextafter(scale, std::numeric_limits<float>::infinity());
  ir::Encoding encoding{ir::EncodingKind::kPerTensor, scale, middle};
  if (!symmetric) {
    encoding.zero_point = static_cast<int32_t>(std::clamp(round_small(-from / scale), 0.0, static_cast<double>(last)));
  }
  return encoding;
}

Interval encoded_range(DType dtype, const ir::Encoding& encoding) {
  const Grid grid = grid_of(dtype, encoding);
  constexpr double kMost = std::numeric_limits<float>::max();
  return {static_cast<float>(std::clamp(grid.low, -kMost, kMost)),
          static_cast<float>(std::clamp(grid.high, -kMost, kMost))};
}

Result<Interval> Observer::choose_range(const RangeOptions& options) const {
  TANDEM_TRY(check());
  const Interval whole{min_, max_};
  switch (options.method) {
    case RangeMethod::kMinMax: return whole;
    case RangeMethod::kPercentile: {
      if (!(options.percentile > 50.0 && options.percentile <= 100.0)) {
        return invalid_argument("percentile {}: it should be above 50 and at most 100", options.percentile);
      }
      // Whole values; plus a tiny bit, because 100 - 99.99 is slightly less than 0.01.
      const double outside = std::floor((100.0 - options.percentile) / 100.0 * static_cast<double>(count_) + 1e-6);
      const Bins all = bins();
      return Interval{static_cast<float>(end_outside(all, outside, true)),
                      static_cast<float>(end_outside(all, outside, false))};
    }
    case RangeMethod::kMse: {
      // Reports what is wrong with a dtype or a range that the search could only skip.
      auto encoding = make_encoding(options.dtype, min_, max_, options.symmetric);
      if (!encoding.ok()) return with_context(std::move(encoding).error(), "{}", name_);
      const Bins all = bins();
      return MseSearch(all, options, whole).run();
    }
  }
  return internal_error("{}: unknown range method", name_);
}

EncodingQuality Observer::quality(DType dtype, const ir::Encoding& encoding) const {
  EncodingQuality quality{0.0, kSqnrLimit};
  if (count_ == 0) return quality;
  const Grid grid = grid_of(dtype, encoding);
  const Bins all = bins();
  const double low = grid.low - grid.step / 2.0, high = grid.high + grid.step / 2.0;
  double outside = 0.0;
  for (const Bin& bin : all) {
    const double width = bin.high - bin.low;
    if (width > 0.0) {
      const double inside = std::max(std::min(bin.high, high) - std::max(bin.low, low), 0.0);
      outside += bin.count * (1.0 - inside / width);
    } else if (bin.low < low || bin.low > high) {
      outside += bin.count;
    }
  }
  quality.clipped = std::clamp(outside / static_cast<double>(count_), 0.0, 1.0);
  const double noise = squared_error(all, grid);
  if (noise > 0.0 && sum_of_squares_ > 0.0) {
    quality.sqnr_db = std::clamp(10.0 * std::log10(sum_of_squares_ / noise), -kSqnrLimit, kSqnrLimit);
  }
  return quality;
}

}  // namespace tandem
