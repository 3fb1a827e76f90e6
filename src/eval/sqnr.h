// Signal-to-noise ratio between two runs of the same model.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <span>

namespace tandem {

// Sums, so that rows can be compared one at a time and discarded.
struct Sqnr {
  double signal = 0.0;  // Sum of squares of the wanted values.
  double noise = 0.0;   // Sum of squares of the differences.
  int64_t count = 0;

  // Spans of equal length.
  void add(std::span<const float> wanted, std::span<const float> got) {
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double difference = static_cast<double>(got[i]) - wanted[i];
      signal += static_cast<double>(wanted[i]) * wanted[i];
      noise += difference * difference;
    }
    count += static_cast<int64_t>(wanted.size());
  }

  // Infinity if the two are equal; NaN if nothing was compared, or one of them has a NaN.
  double db() const {
    if (count == 0 || std::isnan(noise)) return std::numeric_limits<double>::quiet_NaN();
    if (noise == 0.0) return std::numeric_limits<double>::infinity();
    return 10.0 * std::log10(signal / noise);
  }
};

}  // namespace tandem
