#include "reference/softmax.h"

#include <cstring>

#include "base/target_clones.h"

namespace tandem {
namespace {

// 2^n e^r with |r| <= ln(2) / 2. No branches and no calls, so that the loop around it is vectorized.
inline __attribute__((always_inline)) float exp_below_zero(float x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  constexpr float kRound = 12582912.0f;            // 1.5 * 2^23: adding it rounds to an integer.
  constexpr float kLowest = -87.0f;                // Below, the result would be denormal.
  const float inside = x < kLowest ? kLowest : x;  // NaN stays NaN.
  const float shifted = inside * kLog2e + kRound, n = shifted - kRound;
  const float r = (inside - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  uint32_t bits;  // The low bits of `shifted` are n.
  std::memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof(power));
  return x < kLowest ? 0.0f : p * power;
}

}  // namespace

TANDEM_CLONES double exp_row(float* row, int64_t count, float highest) {
  constexpr int kLanes = 16;
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      row[i + lane] = exp_below_zero(row[i + lane] - highest);
      sums[lane] += row[i + lane];
    }
  }
  double total = 0.0;
  for (; i < count; ++i) total += row[i] = exp_below_zero(row[i] - highest);
  for (const float sum : sums) total += sum;
  return total;
}

}  // namespace tandem
