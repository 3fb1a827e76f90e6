// Attention over a u8 KV head with AMX tiles, for many query rows. What generic_int_attention.h multiplies as 16-bit
// words is split into bytes here: a word is 256 * high + low, with a signed high byte and an unsigned low one. Sums are
// exact and all rounding code is shared with the other kernels, so results are the same to the bit.
//
// A tile of the left-hand side is 16 rows of 64 bytes, of queries or of a tile's weights; one of the right-hand side
// has, in each row, four bytes of each of 16 columns. The cache has pairs of bytes, so that two of its rows make one.
#include "backends/cpu/kernels/simd_avx512vnni.h"
//
#include "backends/cpu/kernels/tables.h"
#include "backends/cpu/kernels/unroll.h"
//
#include "backends/cpu/kernels/amx_tiles.h"
#include "backends/cpu/kernels/generic_math.h"
//
#include "backends/cpu/kernels/generic_kv_tile.h"
//
#include "backends/cpu/kernels/generic_int_attention.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kTile = kTileRows * kTileBytes;  // Bytes of one tile.
constexpr int64_t kBoth = 2 * kTile;               // A tile of high bytes followed by the one of low bytes.
static_assert(kTileSlots == kTileBytes, "a row's weights are one step of a product");
// With fewer rows most of a tile would be padding.
constexpr int64_t kLeastRows = 16;

bool suits_tiles(int64_t rows, int64_t dim) { return rows >= kLeastRows && dim % kTileBytes == 0; }

// Splits 64 words into bytes; the low bytes go one tile after the high ones.
inline void split_words(const int16_t* quantized, uint8_t* to) {
  const auto bytes_of = [](__m512i first, __m512i second) {
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(first)), _mm512_cvtepi16_epi8(second), 1);
  };
  const __m512i first = _mm512_loadu_si512(quantized), second = _mm512_loadu_si512(quantized + 32);
  _mm512_storeu_si512(to, bytes_of(_mm512_srli_epi16(first, 8), _mm512_srli_epi16(second, 8)));
  _mm512_storeu_si512(to + kTile, bytes_of(first, second));
}

// Joins 16 pairs of bytes and 16 more into 16 groups of four.
inline __m512i join_pairs(__m512i pairs) {
  const __m512i index =
      _mm512_setr_epi32(0x100000, 0x110001, 0x120002, 0x130003, 0x140004, 0x150005, 0x160006, 0x170007, 0x180008,
                        0x190009, 0x1a000a, 0x1b000b, 0x1c000c, 0x1d000d, 0x1e000e, 0x1f000f);
  return _mm512_permutexvar_epi16(index, pairs);
}

// Tiles 0 and 2, and 1 and 3, are the sums of high and of low bytes for two neighbouring tiles of columns.
struct TileProducts {
  uint8_t* queries;  // [blocks of 16 rows][dim / 64][high, low] tiles
  uint8_t* weights;  // [blocks of 16 rows][high, low] tiles
  uint8_t* right;    // Keys: [dim / 64][4] tiles; values: [dim / 16].
  int32_t* high;     // Sums of one block, [16][64].
  int32_t* low;
  int64_t size;  // Of all parts, in floats.

  TileProducts(float* memory, int64_t rows, int64_t dim) {
    const int64_t blocks = (rows + kTileRows - 1) / kTileRows;
    ScratchParts parts{memory};
    queries = parts.of<uint8_t>(blocks * dim / kTileBytes * kBoth);
    weights = parts.of<uint8_t>(blocks * kBoth);
    right = parts.of<uint8_t>(kTileSlots * dim);
    high = parts.of<int32_t>(kTileRows * kTileSlots);
    low = parts.of<int32_t>(kTileRows * kTileSlots);
    size = parts.size;
  }

  // Splits rows of `steps` * 64 words into tiles of the left-hand side.
  static void split_rows(const int16_t* quantized, int64_t rows, int64_t steps, uint8_t* to) {
    for (int64_t row = 0; row < rows; ++row) {
      uint8_t* const tile_row = to + row / kTileRows * steps * kBoth + row % kTileRows * kTileBytes;
      for (int64_t k = 0; k < steps; ++k) split_words(quantized + (row * steps + k) * kTileBytes, tile_row + k * kBoth);
    }
  }

  void prepare(const AttentionTask& task, const IntScratch& at) const {
    // Rows past the last one stay zero.
    const int64_t steps = task.dim / kTileBytes, last = at.rows / kTileRows;
    if (at.rows % kTileRows != 0) {
      __builtin_memset(queries + last * steps * kBoth, 0, static_cast<size_t>(steps * kBoth));
      __builtin_memset(weights + last * kBoth, 0, static_cast<size_t>(kBoth));
    }
    split_rows(at.queries, at.rows, steps, queries);
  }

  static void zero_sums() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  // One step of a product. The left-hand tiles are in registers 4 and 5.
  static void add_step(const uint8_t* two_tiles) {
    _tile_loadd(6, two_tiles, kTileBytes);
    _tile_loadd(7, two_tiles + kTile, kTileBytes);
    _tile_dpbsud(0, 4, 6);
    _tile_dpbuud(1, 5, 6);
    _tile_dpbsud(2, 4, 7);
    _tile_dpbuud(3, 5, 7);
  }
  static void load_left(const uint8_t* tiles) {
    _tile_loadd(4, tiles, kTileBytes);
    _tile_loadd(5, tiles + kTile, kTileBytes);
  }
  void store_sums(int64_t col) const {
    constexpr int64_t kRowBytes = kTileSlots * 4;
    _tile_stored(0, high + col, kRowBytes);
    _tile_stored(1, low + col, kRowBytes);
    _tile_stored(2, high + col + kLanes, kRowBytes);
    _tile_stored(3, low + col + kLanes, kRowBytes);
  }

  // Passes the sums of 16 rows from `row` on and 64 columns from `col` on to `use`.
  template <typename Use>
  void use_sums(const IntScratch& at, int64_t row, int64_t col, Use use) const {
    const int64_t count = at.rows - row < kTileRows ? at.rows - row : kTileRows;
    for (int64_t r = 0; r < count; ++r) {
      TANDEM_UNROLL for (int64_t c = 0; c < kTileSlots; c += kLanes) {
        const __m512i upper = _mm512_loadu_si512(high + r * kTileSlots + c);
        const __m512i lower = _mm512_loadu_si512(low + r * kTileSlots + c);
        use(row + r, col + c, float_sums(_mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower)));
      }
    }
  }

  template <typename Use>
  void scores(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile, Use use) const {
    const int64_t steps = task.dim / kTileBytes;
    for (int64_t i = 0; i < kKeyTiles; ++i) {
      for (int64_t k = 0; k < steps; ++k) {
        for (int64_t r = 0; r < kTileRows; ++r) {
          const uint8_t* const p = tile.keys[i] + (k * kTileRows + r) * kTileBytes;
          __builtin_prefetch(p + kTileSlots * task.dim);
          _mm512_storeu_si512(right + (k * kKeyTiles + i) * kTile + r * kTileBytes, join_pairs(_mm512_loadu_si512(p)));
        }
      }
    }
    finish_writes();
    for (int64_t row = 0; row < at.rows; row += kTileRows) {
      const uint8_t* const left = queries + row / kTileRows * steps * kBoth;
      for (int64_t i = 0; i < kKeyTiles; i += 2) {
        zero_sums();
        for (int64_t k = 0; k < steps; ++k) {
          load_left(left + k * kBoth);
          add_step(right + (k * kKeyTiles + i) * kTile);
        }
        store_sums(i * kLanes);
      }
      use_sums(at, row, 0, use);
    }
  }

  template <typename Use>
  void values(const AttentionTask& task, const IntScratch& at, const CacheTile<DType::kU8>& tile, int64_t count,
              Use use) const {
    const int64_t dim = task.dim;
    for (int64_t r = 0; r < kTileRows; ++r) {
      const uint8_t* const first = tile.values[2 * r];
      const uint8_t* const second = tile.values[2 * r + 1];
      for (int64_t col = 0; col < dim; col += kLanes) {
        uint8_t* const to = right + col / kLanes * kTile + r * kTileBytes;
        if (4 * r >= count) {
          _mm512_storeu_si512(to, _mm512_setzero_si512());
          continue;
        }
        __builtin_prefetch(first + 2 * col + kTileSlots * dim);
        __builtin_prefetch(second + 2 * col + kTileSlots * dim);
        const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(first + 2 * col));
        const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(second + 2 * col));
        _mm512_storeu_si512(to, join_pairs(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1)));
      }
    }
    split_rows(at.weights, at.rows, 1, weights);
    finish_writes();
    for (int64_t row = 0; row < at.rows; row += kTileRows) {
      load_left(weights + row / kTileRows * kBoth);
      for (int64_t col = 0; col < dim; col += kTileSlots) {
        for (int64_t c = 0; c < kTileSlots; c += 2 * kLanes) {
          zero_sums();
          add_step(right + (col + c) / kLanes * kTile);
          store_sums(c);
        }
        use_sums(at, row, col, use);
      }
    }
  }
};

}  // namespace

bool int_attention_amx(const AttentionTask& task) {
  const IntScratch at(task.scratch, task.tokens, task.group, task.dim);
  if (!suits_tiles(at.rows, task.dim)) return false;
  const TileProducts products(task.scratch + at.size, at.rows, task.dim);
  configure_tiles();
  int_attention_with(task, at, products);
  _tile_release();
  return true;
}

uint64_t int_attention_scratch_amx(int64_t tokens, int64_t group, int64_t dim) {
  if (!suits_tiles(tokens * group, dim)) return 0;
  return static_cast<uint64_t>(IntScratch(nullptr, tokens, group, dim).size +
                               TileProducts(nullptr, tokens * group, dim).size);
}

}  // namespace tandem::cpu
