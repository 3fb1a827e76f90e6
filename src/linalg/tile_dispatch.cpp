#include <vector>

#include "linalg/tile_kernels.h"

namespace tandem::linalg {
namespace {

std::vector<const TileKernels*> find_tiles() {
  std::vector<const TileKernels*> tiles = {&portable_tiles()};
#ifdef TANDEM_LINALG_X86
  // Each says whether the operating system keeps the registers, too.
  if (__builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0) tiles.push_back(&avx2_tiles());
  if (__builtin_cpu_supports("avx512f") != 0) tiles.push_back(&avx512_tiles());
#endif
  return tiles;
}

}  // namespace

std::span<const TileKernels* const> available_tiles() {
  static const std::vector<const TileKernels*> tiles = find_tiles();
  return tiles;
}

const TileKernels& tile_kernels() { return *available_tiles().back(); }

}  // namespace tandem::linalg
