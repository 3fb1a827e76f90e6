// The smallest and the largest of many floats, fast, and whether all of them are finite.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace tandem {

struct ValueRange {
  float low = 0.0f;
  float high = 0.0f;
  uint32_t magnitude_bits = 0;  // Of the largest |x|.
  bool finite = true;           // If false, the rest is meaningless.
};

// count > 0. Never a negative zero. Inlined, so that it is compiled for the instruction set of its caller.
[[gnu::always_inline]] inline ValueRange value_range(const float* values, size_t count) {
  constexpr uint32_t kMagnitude = 0x7fffffffu;
  constexpr uint32_t kInfinity = 0x7f800000u;
  // Works on signed integers that sort like the floats. Integer minima can be taken in any order, so compilers
  // vectorize this; for minima of floats they would need flags that change other things. NaNs sort beyond the
  // infinities, so that the two ends tell whether all are finite.
  int32_t low = INT32_MAX, high = INT32_MIN;
  for (size_t i = 0; i < count; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(values[i]);
    const int32_t ordered = bits ^ static_cast<int32_t>(static_cast<uint32_t>(bits >> 31) & kMagnitude);
    low = std::min(low, ordered);
    high = std::max(high, ordered);
  }
  const auto magnitude = [](int32_t ordered) { return static_cast<uint32_t>(ordered < 0 ? ~ordered : ordered); };
  const auto value = [&](int32_t ordered) {
    const float x = std::bit_cast<float>(magnitude(ordered));
    return ordered < -1 ? -x : x;  // -1 is negative zero.
  };
  const uint32_t largest = std::max(magnitude(low), magnitude(high));
  return {value(low), value(high), largest, largest < kInfinity};
}

}  // namespace tandem
