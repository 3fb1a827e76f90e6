// Rows of a KV cache in any of its dtypes, one number at a time: the reference of the vectorized kernels.
#pragma once

#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/half.h"
#include "numerics/fake_quant.h"

namespace tandem {

struct KvRows {
  DType dtype = DType::kF32;
  void* data = nullptr;            // [heads, slots, dim]
  float* scale_and_min = nullptr;  // kU8: [heads, slots, 2]
  int64_t slots = 0;
  int64_t dim = 0;

  void store(int64_t head, int64_t slot, const float* row) const {
    const int64_t at = (head * slots + slot) * dim;
    switch (dtype) {
      case DType::kF16:
        for (int64_t i = 0; i < dim; ++i) static_cast<uint16_t*>(data)[at + i] = f16_from_f32(row[i]);
        return;
      case DType::kU8: {
        const auto width = static_cast<size_t>(dim);
        const ScaleAndMin chosen = quantize_row_u8({row, width}, {static_cast<uint8_t*>(data) + at, width});
        scale_and_min[2 * (head * slots + slot)] = chosen.scale;
        scale_and_min[2 * (head * slots + slot) + 1] = chosen.min;
        return;
      }
      case DType::kF32:
      case DType::kBF16:
      case DType::kI8:
      case DType::kI16:
      case DType::kU16:
      case DType::kI32:
      case DType::kI64:
      case DType::kI4:
        // Caches are f32, f16 or u8 (the verifier).
        std::memcpy(static_cast<float*>(data) + at, row, sizeof(float) * static_cast<size_t>(dim));
        return;
    }
  }

  // kU8.
  ScaleAndMin encoding(int64_t head, int64_t slot) const {
    const float* const of = scale_and_min + 2 * (head * slots + slot);
    return {of[0], of[1]};
  }

  void load(int64_t head, int64_t slot, float* row) const {
    const int64_t at = (head * slots + slot) * dim;
    switch (dtype) {
      case DType::kF16:
        for (int64_t i = 0; i < dim; ++i) row[i] = f32_from_f16(static_cast<const uint16_t*>(data)[at + i]);
        return;
      case DType::kU8: {
        const auto [scale, low] = encoding(head, slot);
        for (int64_t i = 0; i < dim; ++i) {
          row[i] = scale * static_cast<float>(static_cast<uint8_t*>(data)[at + i]) + low;
        }
        return;
      }
      case DType::kF32:
      case DType::kBF16:
      case DType::kI8:
      case DType::kI16:
      case DType::kU16:
      case DType::kI32:
      case DType::kI64:
      case DType::kI4:
        // Caches are f32, f16 or u8 (the verifier).
        std::memcpy(row, static_cast<float*>(data) + at, sizeof(float) * static_cast<size_t>(dim));
        return;
    }
  }
};

}  // namespace tandem
