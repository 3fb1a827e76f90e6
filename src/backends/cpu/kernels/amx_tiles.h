// The shape of AMX's tiles. Included after simd_avx512vnni.h; internal linkage (see simd_portable.h).
#pragma once

namespace tandem::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileBytes = 64;

struct TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t bytes_per_row[16];
  uint8_t rows[16];
};

constexpr TileConfig make_config() {
  TileConfig config = {};
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.bytes_per_row[i] = kTileBytes;
    config.rows[i] = kTileRows;
  }
  return config;
}

// All eight tiles at full size. Static because GCC 12 believes that the instruction reads eight bytes, and leaves the
// rest of a local variable unwritten.
constexpr TileConfig kConfig = make_config();
inline void configure_tiles() { _tile_loadconfig(&kConfig); }

// GCC 12 does not know that loading a tile reads memory: earlier stores must be visible by then.
inline void finish_writes() { asm volatile("" ::: "memory"); }

}  // namespace
}  // namespace tandem::cpu
