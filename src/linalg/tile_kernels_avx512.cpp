#ifdef TANDEM_LINALG_X86

#include "linalg/tile_kernels_generic.h"

namespace tandem::linalg {

const TileKernels& avx512_tiles() {
  static constexpr TileKernels kTable = Tile<16, 2, 12>::table("avx512");  // 24 of 32 registers hold sums.
  return kTable;
}

}  // namespace tandem::linalg

#endif
