// Normally distributed numbers, the same for the same seed.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace tandem::test {

inline std::vector<float> random_floats(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

}  // namespace tandem::test
