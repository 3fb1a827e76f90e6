#ifdef TANDEM_LINALG_X86

#include "linalg/tile_kernels_generic.h"

namespace tandem::linalg {

const TileKernels& avx2_tiles() {
  static constexpr TileKernels kTable = Tile<8, 2, 6>::table("avx2");  // 12 of 16 registers hold sums.
  return kTable;
}

}  // namespace tandem::linalg

#endif
