// The code of TileKernels for vectors of any width. Included once per instruction set, in an anonymous namespace each:
// nothing here may have external linkage, because the linker would keep one copy for all (kernels.cmake of the CPU back
// end explains). For the same reason it uses no templates of the standard library.
#pragma once

#include <cstdint>
#include <cstring>

#include "linalg/tile_kernels.h"

namespace tandem::linalg {
namespace {

// tile_rows x (vectors * lanes) floats of c are kept in registers.
template <int kLanes, int kVectors, int kTileRows>
struct Tile {
  typedef float Lanes __attribute__((vector_size(sizeof(float) * kLanes)));
  typedef float Four __attribute__((vector_size(16)));
  static constexpr int64_t kTileCols = int64_t{kLanes} * kVectors;

  template <int kRows>
  static inline __attribute__((always_inline)) void multiply_rows(int64_t k, const float* a, const float* b, float* c,
                                                                  int64_t c_stride, int64_t cols, TileStore store) {
    Lanes sums[kRows][kVectors] = {};
    for (int64_t p = 0; p < k; ++p) {
      Lanes bv[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) std::memcpy(&bv[v], b + p * kTileCols + v * kLanes, sizeof(Lanes));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        const float av = a[p * kTileRows + r];
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sums[r][v] += bv[v] * av;
      }
    }
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      if (cols == kTileCols) {
        store_full(sums[r], c + r * c_stride, store);
      } else {
        store_part(sums[r], c + r * c_stride, cols, store);
      }
    }
  }

  static inline __attribute__((always_inline)) void store_full(const Lanes* sums, float* c, TileStore store) {
    for (int v = 0; v < kVectors; ++v) {
      Lanes old;
      std::memcpy(&old, c + v * kLanes, sizeof(Lanes));
      const Lanes changed = store == TileStore::kReplace ? sums[v]
                            : store == TileStore::kAdd   ? old + sums[v]
                                                         : old - sums[v];
      std::memcpy(c + v * kLanes, &changed, sizeof(Lanes));
    }
  }

  static inline __attribute__((always_inline)) void store_part(const Lanes* sums, float* c, int64_t cols,
                                                               TileStore store) {
    float row[kTileCols];
    std::memcpy(row, sums, sizeof(row));
    for (int64_t j = 0; j < cols; ++j) {
      c[j] = store == TileStore::kReplace ? row[j] : store == TileStore::kAdd ? c[j] + row[j] : c[j] - row[j];
    }
  }

  static void multiply(int64_t k, const float* a, const float* b, float* c, int64_t c_stride, int64_t rows,
                       int64_t cols, TileStore store) {
    if (rows == kTileRows) return multiply_rows<kTileRows>(k, a, b, c, c_stride, cols, store);
    int64_t r = 0;
    if constexpr (kTileRows > 8) {
      for (; r + 8 <= rows; r += 8) multiply_rows<8>(k, a + r, b, c + r * c_stride, c_stride, cols, store);
    }
    for (; r + 4 <= rows; r += 4) multiply_rows<4>(k, a + r, b, c + r * c_stride, c_stride, cols, store);
    for (; r < rows; ++r) multiply_rows<1>(k, a + r, b, c + r * c_stride, c_stride, cols, store);
  }

  // Blocks of 4 x 4 are transposed in registers.
  static void pack_transposed(const float* from, int64_t stride, int64_t rows, int64_t k, int64_t width, float* to) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
      const float* const row = from + r * stride;
      int64_t p = 0;
      for (; p + 4 <= k; p += 4) {
        Four a, b, c, d;
        std::memcpy(&a, row + p, sizeof(Four));
        std::memcpy(&b, row + stride + p, sizeof(Four));
        std::memcpy(&c, row + 2 * stride + p, sizeof(Four));
        std::memcpy(&d, row + 3 * stride + p, sizeof(Four));
        const Four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5),
                   ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
        const Four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5),
                   cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
        const Four columns[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                                 __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                                 __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                                 __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
        for (int i = 0; i < 4; ++i) std::memcpy(to + (p + i) * width + r, &columns[i], sizeof(Four));
      }
      for (; p < k; ++p) {
        for (int i = 0; i < 4; ++i) to[p * width + r + i] = row[i * stride + p];
      }
    }
    for (; r < rows; ++r) {
      for (int64_t p = 0; p < k; ++p) to[p * width + r] = from[r * stride + p];
    }
    if (rows == width) return;
    for (int64_t p = 0; p < k; ++p)
      std::memset(to + p * width + rows, 0, sizeof(float) * static_cast<size_t>(width - rows));
  }

  static void solve_lanes(const float* factor, int64_t size, float* x) {
    constexpr int kParts = static_cast<int>(kSolveLanes / kLanes);
    for (int64_t s = 0; s < size; ++s) {
      // Two sums: one would wait for itself most of the time.
      Lanes even[kParts] = {}, odd[kParts] = {};
      for (int64_t p = 0; p < s; ++p) {
        const float f = factor[s * size + p];
        Lanes* const sums = p % 2 == 0 ? even : odd;
        for (int v = 0; v < kParts; ++v) {
          Lanes xv;
          std::memcpy(&xv, x + p * kSolveLanes + v * kLanes, sizeof(Lanes));
          sums[v] += xv * f;
        }
      }
      for (int v = 0; v < kParts; ++v) {
        Lanes xv;
        std::memcpy(&xv, x + s * kSolveLanes + v * kLanes, sizeof(Lanes));
        xv = (xv - (even[v] + odd[v])) / factor[s * size + s];
        std::memcpy(x + s * kSolveLanes + v * kLanes, &xv, sizeof(Lanes));
      }
    }
  }

  static constexpr TileKernels table(const char* name) {
    return {name, kTileRows, kTileCols, &multiply, &pack_transposed, &solve_lanes};
  }
};

}  // namespace
}  // namespace tandem::linalg
