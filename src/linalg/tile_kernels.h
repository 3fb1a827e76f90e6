// The innermost loops of linalg, once per instruction set.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::linalg {

enum class TileStore { kReplace, kAdd, kSubtract };

struct TileKernels {
  const char* name = "";
  int64_t tile_rows = 0;  // Of c, that a tile keeps in registers.
  int64_t tile_cols = 0;

  // c[rows, cols] (=, +=, -=) the sum over k of a[k, tile_rows] b[k, tile_cols], for at most a tile of c.
  void (*multiply_tile)(int64_t k, const float* a, const float* b, float* c, int64_t c_stride, int64_t rows,
                        int64_t cols, TileStore store) = nullptr;

  // to[k, width] = from[rows, k] transposed, for rows <= width; further columns are zeros.
  void (*pack_transposed)(const float* from, int64_t stride, int64_t rows, int64_t k, int64_t width,
                          float* to) = nullptr;

  // Forward substitution for kSolveLanes systems side by side, x[size, kSolveLanes] in place:
  // x[s] = (x[s] - sum over p < s of factor[s, p] x[p]) / factor[s, s]. factor has `size` columns.
  void (*solve_lanes)(const float* factor, int64_t size, float* x) = nullptr;
};
constexpr int64_t kSolveLanes = 32;

const TileKernels& portable_tiles();
#ifdef TANDEM_LINALG_X86
const TileKernels& avx2_tiles();
const TileKernels& avx512_tiles();
#endif

// What this CPU runs, the fastest last. The pointers stay valid.
std::span<const TileKernels* const> available_tiles();
// The fastest.
const TileKernels& tile_kernels();

}  // namespace tandem::linalg
