// Interleaves rows of activations in the order in which a register tile reads them. Included after one simd_*.h and
// generic_math.h; internal linkage (see simd_portable.h).
#pragma once

namespace tandem::cpu {
namespace {

// out[i * rows + r] = x[r * stride + i] for `rows` <= kLanes rows of `count` 32-bit words of any kind. A tile that
// reads its rows in place touches as many cache lines as it has rows, and with a power-of-two stride these all map to
// the same few cache sets.
inline void interleave_rows(const float* x, int64_t stride, int64_t rows, int64_t count, float* out) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    F block[kLanes];
    for (int64_t r = 0; r < kLanes; ++r) {
      const float* at = x + r * stride + i;
      block[r] = r >= rows ? set1(0.0f) : n == kLanes ? load(at) : load_n(at, n);
    }
    transpose(block);
    for (int64_t j = 0; j < n; ++j) {
      // Stores whole vectors; the excess is overwritten by the next ones.
      float* const to = out + (i + j) * rows;
      (count - i - j) * rows >= kLanes ? store(to, block[j]) : store_n(to, block[j], rows);
    }
  }
}

}  // namespace
}  // namespace tandem::cpu
