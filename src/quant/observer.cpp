#include "quant/observer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "quant/value_range.h"

namespace tandem {
namespace {

// A chunk is read from memory once and stays in the first-level cache for its passes.
constexpr size_t kChunk = 2048;
constexpr int kLanes = 16;

constexpr uint32_t kMagnitude = 0x7fffffffu;
// Bits of a float after those that select its bin: 6 of the 23 bits of the fraction are 64 bins per octave.
constexpr int kFractionShift = 17;
constexpr int kOctaveShift = 6;
static_assert((1 << kOctaveShift) == Observer::kBinsPerOctave && kFractionShift + kOctaveShift == 23);

// The vectorized passes, for two instruction sets: the larger vectors double the speed and give the same bits.
struct ChunkStats {
  ValueRange range;
  double sum_of_squares = 0.0;
};

[[gnu::always_inline]] inline ChunkStats chunk_stats_any(const float* values, size_t count) {
  ChunkStats stats{value_range(values, count)};
  double sums[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      sums[lane] += x * x;
    }
  }
  for (; i < count; ++i) sums[0] += static_cast<double>(values[i]) * values[i];
  for (const double sum : sums) stats.sum_of_squares += sum;
  return stats;
}

// The bin of each value; negative values' bins are `side` further on. Bin 0 counts everything below the first.
[[gnu::always_inline]] inline void find_bins_any(const float* values, size_t count, int32_t first, int32_t side,
                                                 int32_t* bins) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(values[i]);
    const int32_t bin = std::max(static_cast<int32_t>((bits & kMagnitude) >> kFractionShift) - first, 0);
    bins[i] = bin + (static_cast<int32_t>(bits) < 0 ? side : 0);
  }
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] ChunkStats chunk_stats_avx2(const float* values, size_t count) {
  return chunk_stats_any(values, count);
}
[[gnu::target("avx2")]] void find_bins_avx2(const float* values, size_t count, int32_t first, int32_t side,
                                            int32_t* bins) {
  find_bins_any(values, count, first, side, bins);
}
bool has_avx2() { return __builtin_cpu_supports("avx2"); }

ChunkStats chunk_stats(const float* values, size_t count) {
  return has_avx2() ? chunk_stats_avx2(values, count) : chunk_stats_any(values, count);
}
void find_bins(const float* values, size_t count, int32_t first, int32_t side, int32_t* bins) {
  has_avx2() ? find_bins_avx2(values, count, first, side, bins) : find_bins_any(values, count, first, side, bins);
}
#else
ChunkStats chunk_stats(const float* values, size_t count) { return chunk_stats_any(values, count); }
void find_bins(const float* values, size_t count, int32_t first, int32_t side, int32_t* bins) {
  find_bins_any(values, count, first, side, bins);
}
#endif

float bin_edge(int key) {
  return std::bit_cast<float>(std::min(static_cast<uint32_t>(key) << kFractionShift,
                                       std::bit_cast<uint32_t>(std::numeric_limits<float>::max())));
}

}  // namespace

Observer::Observer(std::string name) : name_(std::move(name)), counts_(2 * kSide, 0) {}

// Counting is a read, an addition and a write, and stalls on the previous write if that was to the same bin. Neighbours
// are often equal (zeros), so with many values they go to different tables, which are summed at the end.
struct Observer::Tables {
  static constexpr size_t kTables = 4;
  static constexpr size_t kFewest = 16384;          // With fewer values the summing does not pay off.
  static constexpr size_t kMost = size_t{1} << 20;  // No count overflows.
  uint32_t counts[kTables][2 * kSide] = {};

  void move_to(std::vector<uint64_t>& sums) {
    for (auto& table : counts) {
      for (size_t i = 0; i < 2 * kSide; ++i) sums[i] += table[i];
      std::fill(std::begin(table), std::end(table), 0);
    }
  }
};

void Observer::add(std::span<const float> values) {
  while (values.size() >= Tables::kFewest) {
    Tables tables;
    std::span<const float> batch = values.first(std::min(values.size(), Tables::kMost));
    values = values.subspan(batch.size());
    for (; !batch.empty(); batch = batch.subspan(std::min(batch.size(), kChunk))) {
      add_chunk(batch.data(), std::min(batch.size(), kChunk), &tables);
    }
    tables.move_to(counts_);
  }
  for (; !values.empty(); values = values.subspan(std::min(values.size(), kChunk))) {
    add_chunk(values.data(), std::min(values.size(), kChunk), nullptr);
  }
}

void Observer::add_chunk(const float* values, size_t count, Tables* tables) {
  const ChunkStats stats = chunk_stats(values, count);
  const ValueRange& seen = stats.range;
  if (!seen.finite) {
    // Rare: extract the finite values and start over.
    float finite[kChunk];
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      if (std::isfinite(values[i])) finite[kept++] = values[i];
    }
    non_finite_ += count - kept;
    if (kept > 0) add_chunk(finite, kept, tables);
    return;
  }
  min_ = count_ == 0 ? seen.low : std::min(min_, seen.low);
  max_ = count_ == 0 ? seen.high : std::max(max_, seen.high);
  count_ += count;
  sum_of_squares_ += stats.sum_of_squares;
  if (const int base = static_cast<int>(seen.magnitude_bits >> 23) - (kOctaves - 1); base > base_) {
    if (tables != nullptr) tables->move_to(counts_);
    move_base(base);
  }

  int32_t bins[kChunk];
  find_bins(values, count, (base_ << kOctaveShift) - 1, kSide, bins);
  size_t i = 0;
  if (tables != nullptr) {
    for (; i + Tables::kTables <= count; i += Tables::kTables) {
      for (size_t table = 0; table < Tables::kTables; ++table) ++tables->counts[table][bins[i + table]];
    }
  }
  for (; i < count; ++i) ++counts_[static_cast<size_t>(bins[i])];
}

// Makes `base` the lowest octave if it is above the present one; lower values count as zero from now on.
void Observer::move_base(int base) {
  if (base <= base_) return;
  const int shift = std::min((base - base_) << kOctaveShift, kBins);
  base_ = base;
  for (uint64_t* side : {counts_.data(), counts_.data() + kSide}) {
    for (int i = 1; i <= shift; ++i) side[0] += side[i];
    std::copy(side + 1 + shift, side + kSide, side + 1);
    std::fill(side + kSide - shift, side + kSide, 0);
  }
}

void Observer::merge(const Observer& other) {
  non_finite_ += other.non_finite_;
  if (other.count_ == 0) return;
  min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
  max_ = count_ == 0 ? other.max_ : std::max(max_, other.max_);
  count_ += other.count_;
  sum_of_squares_ += other.sum_of_squares_;
  move_base(other.base_);
  const int shift = std::min((base_ - other.base_) << kOctaveShift, kBins);
  for (int side = 0; side < 2; ++side) {
    uint64_t* to = counts_.data() + side * kSide;
    const uint64_t* from = other.counts_.data() + side * kSide;
    for (int i = 0; i < kSide; ++i) to[std::max(i - shift, 0)] += from[i];
  }
}

Status Observer::check() const {
  if (non_finite_ > 0) {
    return invalid_argument(
        "{}: {} of {} values seen in calibration are infinite or not a number; the model or its checkpoint is broken, "
        "or "
        "overflows on this text",
        name_, non_finite_, non_finite_ + count_);
  }
  if (count_ == 0) return invalid_argument("{}: calibration saw no values; give a text that reaches it", name_);
  return ok_status();
}

std::vector<Observer::Bin> Observer::bins() const {
  std::vector<Bin> bins;
  if (count_ == 0) return bins;
  const int first = (base_ << kOctaveShift) - 1;
  const uint64_t *positive = counts_.data(), *negative = counts_.data() + kSide;
  for (int i = kBins; i >= 1; --i) {
    if (negative[i] == 0) continue;
    bins.push_back({-bin_edge(first + i + 1), -bin_edge(first + i), static_cast<double>(negative[i])});
  }
  if (const uint64_t zeros = positive[0] + negative[0]; zeros > 0)
    bins.push_back({0.0, 0.0, static_cast<double>(zeros)});
  for (int i = 1; i <= kBins; ++i) {
    if (positive[i] == 0) continue;
    bins.push_back({bin_edge(first + i), bin_edge(first + i + 1), static_cast<double>(positive[i])});
  }
  // The outermost bins end where the values do. (Values counted as zero stay there.)
  for (Bin& bin : bins) {
    if (bin.low == bin.high) continue;
    bin.low = std::clamp(bin.low, static_cast<double>(min_), static_cast<double>(max_));
    bin.high = std::clamp(bin.high, bin.low, static_cast<double>(max_));
  }
  return bins;
}

std::vector<double> Observer::histogram(int bins) const {
  std::vector<double> parts;
  if (count_ == 0 || bins <= 0) return parts;
  parts.assign(static_cast<size_t>(bins), 0.0);
  const double low = min_, span = static_cast<double>(max_) - low;
  const double per_unit = span > 0.0 ? bins / span : 0.0;
  const auto part_of = [&](double x) { return std::clamp(static_cast<int>((x - low) * per_unit), 0, bins - 1); };
  for (const Bin& bin : this->bins()) {
    const int from = part_of(bin.low), to = part_of(bin.high);
    if (from == to || bin.low == bin.high) {
      parts[static_cast<size_t>(from)] += bin.count;
      continue;
    }
    // Spread over the parts that it overlaps.
    const double density = bin.count / (bin.high - bin.low);
    for (int i = from; i <= to; ++i) {
      const double begin = std::max(bin.low, low + i / per_unit), end = std::min(bin.high, low + (i + 1) / per_unit);
      parts[static_cast<size_t>(i)] += std::max(end - begin, 0.0) * density;
    }
  }
  return parts;
}

}  // namespace tandem
