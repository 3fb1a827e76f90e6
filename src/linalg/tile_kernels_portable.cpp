#include "linalg/tile_kernels_generic.h"

namespace tandem::linalg {

const TileKernels& portable_tiles() {
#ifdef __aarch64__
  static constexpr TileKernels kTable = Tile<4, 2, 12>::table("portable");  // 24 of 32 registers hold sums.
#else
  static constexpr TileKernels kTable = Tile<4, 2, 6>::table("portable");
#endif
  return kTable;
}

}  // namespace tandem::linalg
