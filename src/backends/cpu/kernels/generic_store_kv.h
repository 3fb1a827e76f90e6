// Storing rows of keys and values. Included after one simd_*.h, generic_math.h and generic_elementwise.h; internal
// linkage (see simd_portable.h).
#pragma once

#include "backends/cpu/kernels/kv_layout.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kStoreChunk = 128;

// The scale and minimum of a kU8 row.
struct ByteRow {
  float scale, low;
  bool broken;  // Has a non-finite number: stays visible in the result.
};
inline ByteRow find_byte_range(const float* row, int64_t dim) {
  float low = row[0], high = row[0];
  bool broken = false;
  int64_t i = 0;
  if (dim >= kLanes) {
    F lows = load(row), highs = lows, odd = lows - lows;
    for (i = kLanes; i + kLanes <= dim; i += kLanes) {
      const F x = load(row + i);
      lows = vmin(x, lows);
      highs = vmax(x, highs);
      odd = odd + (x - x);  // Becomes NaN at the first non-finite number.
    }
    low = -hmax(set1(0.0f) - lows);
    high = hmax(highs);
    broken = !(hsum(odd) == 0.0f);
  }
  for (; i < dim; ++i) {
    low = row[i] < low ? row[i] : low;
    high = row[i] > high ? row[i] : high;
    broken = broken || !(row[i] - row[i] == 0.0f);
  }
  const float range = high - low;
  return {range / 255.0f, low, broken || range == __builtin_inff()};
}

#ifndef TANDEM_SIMD_SPREADS
template <typename Number>
inline void store_every_second(Number* to, const Number* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[2 * i] = numbers[i];
}
#endif

// Scatters a row into a cache of Numbers; convert(x, n, y) converts n <= kStoreChunk floats.
template <typename Number, int64_t (*Index)(int64_t, int64_t, int64_t, int64_t), typename Convert>
inline void store_numbers(const float* row, int64_t dim, int64_t slot, const KvHead& head, Convert&& convert) {
  auto* data = static_cast<Number*>(head.data);
  const int64_t slots = head.slots;  // A local copy, so that it is not read again after each byte written.
  Number numbers[kStoreChunk];
  for (int64_t at = 0; at < dim; at += kStoreChunk) {
    const int64_t count = dim - at < kStoreChunk ? dim - at : kStoreChunk;
    convert(row + at, count, numbers);
    if (dim % 2 != 0) {
      for (int64_t i = 0; i < count; ++i) data[Index(slots, dim, slot, at + i)] = numbers[i];
      continue;
    }
    // Pairs are at even distances.
    const int64_t first = Index(slots, dim, slot, at), second = Index(slots, dim, slot, at + 1);
    const int64_t pair = count > 2 ? Index(slots, dim, slot, at + 2) - first : 0;
    if (second == first + 1) {
      for (int64_t i = 0; i < count; i += 2) {
        __builtin_memcpy(data + first + i / 2 * pair, numbers + i, 2 * sizeof(Number));
      }
    } else {
      store_every_second(data + first, numbers, count);
    }
  }
}

template <int64_t (*Index)(int64_t, int64_t, int64_t, int64_t)>
inline void store_row(const float* row, int64_t dim, int64_t slot, const KvHead& head) {
  switch (head.dtype) {
    case DType::kF16:
      store_numbers<uint16_t, Index>(row, dim, slot, head,
                                     [](const float* x, int64_t n, uint16_t* y) { convert_f16_from_f32(x, n, y); });
      return;
    case DType::kU8: {
      const ByteRow bytes = find_byte_range(row, dim);
      float* scale_and_min = head.scale_and_min + 2 * slot;
      scale_and_min[0] = bytes.broken ? __builtin_nanf("") : bytes.scale;
      scale_and_min[1] = bytes.broken ? __builtin_nanf("") : bytes.low;
      const bool flat = bytes.broken || bytes.scale == 0.0f;
      store_numbers<uint8_t, Index>(row, dim, slot, head, [=](const float* x, int64_t n, uint8_t* y) {
        if (flat) {
          __builtin_memset(y, 0, static_cast<size_t>(n));
          return;
        }
        // A denormal step is imprecise: hence vmin.
        map_to_bytes(x, n, y, [=](F v) { return vmin((v - set1(bytes.low)) / set1(bytes.scale), set1(255.0f)); });
      });
      return;
    }
    case DType::kF32:
    case DType::kBF16:
    case DType::kI8:
    case DType::kI16:
    case DType::kU16:
    case DType::kI32:
    case DType::kI64:
    case DType::kI4:  // Caches are f32, f16 or u8 (the verifier).
      store_numbers<float, Index>(row, dim, slot, head, [](const float* x, int64_t n, float* y) {
        __builtin_memcpy(y, x, static_cast<size_t>(n) * sizeof(float));
      });
      return;
  }
}

void store_key(const float* row, int64_t dim, int64_t slot, const KvHead& head) {
  store_row<key_index>(row, dim, slot, head);
}
void store_value(const float* row, int64_t dim, int64_t slot, const KvHead& head) {
  store_row<value_index>(row, dim, slot, head);
}

}  // namespace
}  // namespace tandem::cpu
