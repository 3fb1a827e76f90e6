// Integer linear layers for AMX: a tile is 16 rows of 64 bytes, and tdpbssd multiplies 16 tokens x 64 inputs with 64
// inputs x 16 channels. A kI8 panel, as stored in the file, is a column of such tiles; kLpbq4 panels are expanded to
// kI8 ones, once for all tokens. Activations are arranged in tiles: read from where they were quantized, at a stride of
// 1024 bytes, the rows of a tile would map to few cache sets. Few tokens are left to VNNI.
// Sums are exact, so results are those of the other integer kernels to the bit.
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"
//
#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/linear_int_avx512.h"

namespace tandem::cpu {
namespace {

constexpr int kPanels = 2;
constexpr int64_t kSumsBytes =
    2 * kTileRows * kPanels * kPanelRows * 4;  // Of a block, at the start of the scratch memory.
// With fewer tokens most of a tile would be padding.
constexpr int64_t kLeastTokens = 12;

// ---- Activations: 16 tokens to a group, in tile order ----

int64_t group_bytes(int64_t cols) { return kTileRows * cols; }

// [cols / 64][16 tokens][64]; zeros for missing tokens.
void arrange_group(const int8_t* quantized, int64_t stride, int64_t tokens, int64_t cols, uint8_t* out) {
  for (int64_t col = 0; col < cols; col += kTileBytes) {
    for (int64_t t = 0; t < kTileRows; ++t, out += kTileBytes) {
      _mm512_storeu_si512(out, t < tokens ? _mm512_loadu_si512(quantized + t * stride + col) : _mm512_setzero_si512());
    }
  }
}

static_assert(kTileRows % 2 == 0 && kTileRows <= kMaxLayoutGroup);
constexpr QuantizedLayout kTileLayout = {kTileRows, group_bytes, arrange_group};

constexpr int64_t kExpandedBytes = 512 << 10;  // Of the panels processed at a time.

// 16 * G tokens x P panels to sums[token][panel][16]. x: G groups.
template <int G, int P>
void multiply_block(const uint8_t* x, const uint8_t* weights, int64_t cols, int32_t* sums) {
  const int64_t panel_bytes = kPanelRows * cols;
  _tile_zero(0);
  if constexpr (G == 2) _tile_zero(1);
  if constexpr (P == 2) _tile_zero(2);
  if constexpr (G == 2 && P == 2) _tile_zero(3);
  for (int64_t at = 0; at < panel_bytes; at += kTileRows * kTileBytes) {
    _tile_loadd(6, weights + at, kTileBytes);
    _tile_loadd(4, x + at, kTileBytes);
    _tile_dpbssd(0, 4, 6);
    if constexpr (G == 2) {
      _tile_loadd(5, x + panel_bytes + at, kTileBytes);
      _tile_dpbssd(1, 5, 6);
    }
    if constexpr (P == 2) {
      _tile_loadd(7, weights + panel_bytes + at, kTileBytes);
      _tile_dpbssd(2, 4, 7);
    }
    if constexpr (G == 2 && P == 2) _tile_dpbssd(3, 5, 7);
  }
  constexpr int64_t kRowBytes = P * kPanelRows * 4;
  _tile_stored(0, sums, kRowBytes);
  if constexpr (G == 2) _tile_stored(1, sums + kTileRows * P * kPanelRows, kRowBytes);
  if constexpr (P == 2) _tile_stored(2, sums + kPanelRows, kRowBytes);
  if constexpr (G == 2 && P == 2) _tile_stored(3, sums + kTileRows * P * kPanelRows + kPanelRows, kRowBytes);
}

template <int G, int P>
void linear_block(const LinearTask& task, const uint8_t* x, const uint8_t* weights, int64_t panel, int64_t token) {
  auto* sums = reinterpret_cast<int32_t*>(task.scratch);
  multiply_block<G, P>(x, weights, padded(task.weight->cols), sums);
  const int64_t count = task.tokens - token < G * kTileRows ? task.tokens - token : G * kTileRows;
  const SumsWriter<P> writer(task, panel);
  for (int64_t t = 0; t < count; ++t) {
    __m512i row[1][P];
    for (int p = 0; p < P; ++p) row[0][p] = _mm512_loadu_si512(sums + (t * P + p) * kPanelRows);
    writer.write(token + t, row);
  }
}

// All panels of a block for G groups of tokens.
template <int G>
void linear_groups(const LinearTask& task, const uint8_t* weights, int64_t begin, int64_t panels, int64_t token) {
  const int64_t cols = padded(task.weight->cols), panel_bytes = kPanelRows * cols;
  const uint8_t* x = task.quantized.arranged + token / kTileRows * group_bytes(cols);
  int64_t p = 0;
  for (; p + kPanels <= panels; p += kPanels) {
    linear_block<G, kPanels>(task, x, weights + p * panel_bytes, begin + p, token);
  }
  for (; p < panels; ++p) linear_block<G, 1>(task, x, weights + p * panel_bytes, begin + p, token);
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

const QuantizedLayout* quantized_layout_amx(int64_t tokens) {
  return tokens < kLeastTokens ? quantized_layout_avx512vnni(tokens) : &kTileLayout;
}

uint64_t linear_int_scratch_amx(const PackedMatrix& weight, int64_t tokens) {
  const int64_t cols = padded(weight.cols);
  const uint64_t few = linear_int_scratch_avx512vnni(weight, tokens < kLeastTokens ? tokens : kLeastTokens);
  const int64_t expanded =
      weight.format == WeightFormat::kLpbq4 ? panels_at_once(cols, kExpandedBytes, kPanels) * kPanelRows * cols : 0;
  const auto many = static_cast<uint64_t>(kSumsBytes + expanded);
  return few > many ? few : many;
}

void linear_int_amx(const LinearTask& task) {
  if (task.tokens < kLeastTokens) {
    linear_int_avx512vnni(task);
    return;
  }
  const PackedMatrix& w = *task.weight;
  const int64_t cols = padded(w.cols), panel_bytes = kPanelRows * cols,
                most = panels_at_once(cols, kExpandedBytes, kPanels);
  configure_tiles();
  for (int64_t begin = task.panel_begin; begin < task.panel_end; begin += most) {
    const int64_t panels = task.panel_end - begin < most ? task.panel_end - begin : most;
    const uint8_t* weights = w.data + begin * panel_bytes;
    if (w.format == WeightFormat::kLpbq4) {
      uint8_t* const expanded = task.scratch + kSumsBytes;
      for (int64_t p = 0; p < panels; ++p) expand_panel<kSigned>(w, begin + p, expanded + p * panel_bytes);
      finish_writes();
      weights = expanded;
    }
    NextPanels next(w, begin + panels, panels, (task.tokens + 2 * kTileRows - 1) / (2 * kTileRows));
    int64_t token = 0;
    for (; token + kTileRows < task.tokens; token += 2 * kTileRows) {
      next.fetch_part();
      linear_groups<2>(task, weights, begin, panels, token);
    }
    if (token < task.tokens) linear_groups<1>(task, weights, begin, panels, token);
  }
  _tile_release();
}

}  // namespace tandem::cpu
