// Observers: the distribution of an activation's values over a calibration text, and which range of them to encode.
//
//   Observer observer("layers.3.mlp.gated");
//   for (...) observer.add(values);                                              // at about memory speed
//   RangeOptions options = {.method = RangeMethod::kMse, .dtype = DType::kU16};
//   TANDEM_ASSIGN(const Interval range, observer.choose_range(options));
//   TANDEM_ASSIGN(const ir::Encoding encoding, make_encoding(options.dtype, range.low, range.high, options.symmetric));
//   EncodingQuality quality = observer.quality(options.dtype, encoding);         // clipping and SQNR
//
// docs/quantization.md ("Calibration") describes the methods.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem {

// How a range is chosen from the observed values.
enum class RangeMethod {
  kMinMax,      // All of it.
  kPercentile,  // All except a share of the values at each end.
  kMse,         // The range whose encoding has the smallest mean square error.
};
std::string_view range_method_name(RangeMethod method);  // "minmax", "percentile", "mse"
Result<RangeMethod> parse_range_method(std::string_view name);

struct RangeOptions {
  RangeMethod method = RangeMethod::kMinMax;
  double percentile = 99.99;  // kPercentile: at each end at most 100 - percentile percent of the values are left out.
  // What the range is for. Only kMse uses these: with fewer levels, clipping more pays off.
  DType dtype = DType::kU16;
  bool symmetric = false;
};

struct Interval {
  float low = 0.0f;
  float high = 0.0f;

  bool operator==(const Interval&) const = default;
};

// A per-tensor encoding of u8 or u16 for values in [low, high]. Zero is always in the range and is represented exactly.
// Symmetric: the zero point is the middle one, 128 or 32768. No value of the range is off by more than half a step.
// Ranges narrower than kSmallestSpan (a tensor of zeros) are widened to it.
inline constexpr double kSmallestSpan = 0x1p-13;
Result<ir::Encoding> make_encoding(DType dtype, float low, float high, bool symmetric);
// The values of the lowest and the highest quantized value.
Interval encoded_range(DType dtype, const ir::Encoding& encoding);

// The effect of an encoding on the observed values.
struct EncodingQuality {
  double clipped = 0.0;  // Share of values more than half a step outside the range: worse than rounding.
  double sqnr_db = 0.0;  // Signal to quantization noise ratio, within +-kSqnrLimit.
};
inline constexpr double kSqnrLimit = 200.0;

// The statistics of one tensor, in fixed memory (about 24 KiB).
//
// The histogram has bins of constant *relative* width: each octave below the largest magnitude has kBinsPerOctave for
// each sign, over kOctaves octaves; smaller values count as zero. When larger values come, all bins move down by whole
// octaves, which loses nothing. Activations of language models need this: a few are thousands of times larger than the
// rest, and bins of equal width would put all of the rest into one.
class Observer {
 public:
  static constexpr int kBinsPerOctave = 64;
  static constexpr int kOctaves = 24;

  // The name is for error messages.
  explicit Observer(std::string name = {});

  void add(std::span<const float> values);
  // As if everything that `other` saw had been added here, except for what its histogram counts as zero.
  void merge(const Observer& other);

  const std::string& name() const { return name_; }
  uint64_t count() const { return count_; }  // Finite values.
  uint64_t non_finite_count() const { return non_finite_; }
  // Of the finite values; 0 if there are none.
  float min() const { return count_ == 0 ? 0.0f : min_; }
  float max() const { return count_ == 0 ? 0.0f : max_; }
  double mean_square() const { return count_ == 0 ? 0.0 : sum_of_squares_ / static_cast<double>(count_); }

  // An error that names the tensor if there were no values, or infinity or NaN among them.
  Status check() const;

  // Fails as check() does, and for a percentile that is not in (50, 100].
  Result<Interval> choose_range(const RangeOptions& options) const;
  // `encoding` is kPerTensor. Computed from the histogram; exact about whether anything is clipped at all.
  EncodingQuality quality(DType dtype, const ir::Encoding& encoding) const;

  // The nonempty bins, from the lowest to the highest. The first begins at min(), the last ends at max().
  struct Bin {
    double low = 0.0;
    double high = 0.0;  // Equal to low: all values are (or count as) this one.
    double count = 0.0;
  };
  std::vector<Bin> bins() const;
  // For plots: how many values are in each of `bins` equal parts of [min(), max()]. Empty if there are no values.
  std::vector<double> histogram(int bins) const;

 private:
  static constexpr int kBins = kOctaves * kBinsPerOctave;  // Per sign, plus one before them for what counts as zero.
  static constexpr int kSide = kBins + 1;

  struct Tables;
  void add_chunk(const float* values, size_t count, Tables* tables);
  void move_base(int base);

  std::string name_;
  uint64_t count_ = 0;
  uint64_t non_finite_ = 0;
  float min_ = 0.0f;
  float max_ = 0.0f;
  double sum_of_squares_ = 0.0;
  int base_ = 0;                  // Floating-point exponent field of the lowest octave.
  std::vector<uint64_t> counts_;  // [2][kSide]: positive values, negative values.
};

}  // namespace tandem
