// What the kernel tests share: the tables to test, random data, aligned scratch, naive double-precision references.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace tandem::cpu {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A test of every table that this CPU can run; its name says which.
class EachIsa : public testing::TestWithParam<const KernelTable*> {
 protected:
  const KernelTable& k() const { return *GetParam(); }
};
#define TANDEM_EACH_ISA(suite)                                                                                    \
  INSTANTIATE_TEST_SUITE_P(Isa, suite, testing::ValuesIn(available_kernels().begin(), available_kernels().end()), \
                           [](const auto& isa_info) { return std::string(isa_info.param->isa); })

template <typename T>
struct AlignedBuffer {
  explicit AlignedBuffer(uint64_t count)
      // Exactly as large as requested, so that AddressSanitizer sees a write past the end.
      : data(static_cast<T*>(count == 0 ? nullptr : ::operator new (count * sizeof(T), std::align_val_t{64}))) {}
  ~AlignedBuffer() { ::operator delete (data, std::align_val_t{64}); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  T* data;
};

struct Random {
  explicit Random(uint32_t seed) : engine(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  float normal(float scale = 1.0f) { return scale * std::normal_distribution<float>()(engine); }
  std::vector<float> normals(int64_t count, float scale = 1.0f) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& v : values) v = normal(scale);
    return values;
  }
  std::mt19937 engine;
};

// kEdges: each number is the lowest or the highest.
enum class Fill { kRandom, kLowest, kHighest, kZero, kEdges };

// A matrix of any format; the extremes are those of the format.
WeightMatrix make_matrix(WeightFormat format, int64_t rows, int64_t cols, int block, Fill fill, Random& random);

// The distance of two floats in units in the last place of `want`.
inline double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  if (std::isinf(static_cast<float>(want)) || std::isinf(got)) return static_cast<float>(want) == got ? 0 : 1e30;
  const float w = std::abs(static_cast<float>(want));
  const double unit = static_cast<double>(std::nextafter(w, kInf)) - static_cast<double>(w);
  return std::abs(static_cast<double>(got) - want) / unit;
}

}  // namespace tandem::cpu
