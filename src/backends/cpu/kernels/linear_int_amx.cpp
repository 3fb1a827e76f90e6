// Integer linear layers for AMX: a tile is 16 rows of 64 bytes, and tdpbssd multiplies 16 tokens x 64 inputs with
// 64 inputs x 16 channels. A kI8 panel is a column of such tiles as it lies in the file, and activations are read where
// they were quantized; kLpbq4 panels are expanded to kI8 ones, once for all tokens. Few tokens are left to VNNI.
// Sums are exact, so results are those of the other integer kernels to the bit.
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"
//
#include "backends/cpu/kernels/linear_int_avx512.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileBytes = 64;
constexpr int64_t kBlockTokens = 2 * kTileRows;
constexpr int kPanels = 2;
// With fewer tokens most of a tile would be padding.
constexpr int64_t kLeastTokens = 12;

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

// All eight tiles whole. Static: GCC 12 believes that the instruction reads eight bytes, and leaves the others of a
// variable unwritten.
constexpr TileConfig kConfig = make_config();
inline void configure_tiles() { _tile_loadconfig(&kConfig); }

// Where the parts of the scratch begin: sums of a block, the last tokens with rows of zeros behind them, panels.
struct Scratch {
  int64_t tail, expanded, end;
  explicit Scratch(const PackedMatrix& w) {
    const int64_t cols = padded(w.cols);
    tail = kBlockTokens * kPanels * kPanelRows * 4;
    expanded = tail + kBlockTokens * cols;
    end = expanded + (w.format == WeightFormat::kLpbq4 ? kPanels * kPanelRows * cols : 0);
  }
};

// 32 tokens x P panels to sums[token][panel][16]. x: 32 rows, `stride` apart.
template <int P>
void multiply_block(const int8_t* x, int64_t stride, const uint8_t* weights, int64_t cols, int32_t* sums) {
  const int64_t panel_bytes = kPanelRows * cols;
  _tile_zero(0);
  _tile_zero(1);
  if constexpr (P == 2) {
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t col = 0; col < cols; col += kTileBytes) {
    _tile_loadd(6, weights + col * kPanelRows, kTileBytes);
    _tile_loadd(4, x + col, stride);
    _tile_dpbssd(0, 4, 6);
    _tile_loadd(5, x + kTileRows * stride + col, stride);
    _tile_dpbssd(1, 5, 6);
    if constexpr (P == 2) {
      _tile_loadd(7, weights + panel_bytes + col * kPanelRows, kTileBytes);
      _tile_dpbssd(2, 4, 7);
      _tile_dpbssd(3, 5, 7);
    }
  }
  constexpr int64_t kRowBytes = P * kPanelRows * 4;
  _tile_stored(0, sums, kRowBytes);
  _tile_stored(1, sums + kTileRows * P * kPanelRows, kRowBytes);
  if constexpr (P == 2) {
    _tile_stored(2, sums + kPanelRows, kRowBytes);
    _tile_stored(3, sums + kTileRows * P * kPanelRows + kPanelRows, kRowBytes);
  }
}

template <int P>
void multiply_panels(const LinearTask& task, const uint8_t* weights, int64_t panel, const int8_t* tail) {
  const int64_t cols = padded(task.weight->cols), stride = task.quantized.stride;
  auto* sums = reinterpret_cast<int32_t*>(task.scratch);
  for (int64_t token = 0; token < task.tokens; token += kBlockTokens) {
    const int64_t count = task.tokens - token < kBlockTokens ? task.tokens - token : kBlockTokens;
    if (count == kBlockTokens) {
      multiply_block<P>(task.quantized.codes + token * stride, stride, weights, cols, sums);
    } else {
      multiply_block<P>(tail, cols, weights, cols, sums);
    }
    for (int64_t t = 0; t < count; ++t) {
      for (int p = 0; p < P; ++p) {
        store_sums(task, panel + p, token + t, _mm512_loadu_si512(sums + (t * P + p) * kPanelRows));
      }
    }
  }
}

template <int P>
void linear_panels(const LinearTask& task, int64_t panel, const Scratch& offsets) {
  const PackedMatrix& w = *task.weight;
  const int64_t panel_bytes = kPanelRows * padded(w.cols);
  const auto* tail = reinterpret_cast<const int8_t*>(task.scratch + offsets.tail);
  if (w.format == WeightFormat::kI8) {
    multiply_panels<P>(task, w.data + panel * panel_bytes, panel, tail);
    return;
  }
  uint8_t* expanded = task.scratch + offsets.expanded;
  for (int p = 0; p < P; ++p) expand_panel<kSigned>(w, panel + p, expanded + p * panel_bytes);
  multiply_panels<P>(task, expanded, panel, tail);
}

}  // namespace

int64_t multiply_int8_amx(int64_t rounds) {
  configure_tiles();
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  for (int64_t i = 0; i < rounds; ++i) {
    _tile_dpbssd(0, 4, 5);
    _tile_dpbssd(1, 4, 5);
    _tile_dpbssd(2, 4, 5);
    _tile_dpbssd(3, 4, 5);
  }
  _tile_release();
  return rounds * 4 * kTileRows * kTileRows * kTileBytes * 2;
}

uint64_t linear_int_scratch_amx(const PackedMatrix& weight, int64_t tokens) {
  const uint64_t few = linear_int_scratch_avx512vnni(weight, tokens < kLeastTokens ? tokens : kLeastTokens);
  const auto many = static_cast<uint64_t>(Scratch(weight).end);
  return few > many ? few : many;
}

void linear_int_amx(const LinearTask& task) {
  if (task.tokens < kLeastTokens) {
    linear_int_avx512vnni(task);
    return;
  }
  const Scratch offsets(*task.weight);
  const int64_t cols = padded(task.weight->cols), rest = task.tokens % kBlockTokens;
  uint8_t* tail = task.scratch + offsets.tail;
  for (int64_t t = 0; t < rest; ++t) {
    __builtin_memcpy(tail + t * cols, task.quantized.codes + (task.tokens - rest + t) * task.quantized.stride,
                     static_cast<size_t>(cols));
  }
  if (rest != 0) __builtin_memset(tail + rest * cols, 0, static_cast<size_t>((kBlockTokens - rest) * cols));
  configure_tiles();
  int64_t panel = task.panel_begin;
  for (; panel + kPanels <= task.panel_end; panel += kPanels) linear_panels<kPanels>(task, panel, offsets);
  for (; panel < task.panel_end; ++panel) linear_panels<1>(task, panel, offsets);
  _tile_release();
}

}  // namespace tandem::cpu
