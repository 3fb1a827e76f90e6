#include "quant/scale_search.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "quant/quantize.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Vectors of 32 bytes never cross a call here (everything is inlined), so their calling convention does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"
#if defined(__clang__)
#pragma clang fp contract(off)
#endif

namespace tandem {
namespace {

using Vec = float __attribute__((vector_size(kSearchLanes * sizeof(float))));
using DoubleVec = double __attribute__((vector_size(kSearchLanes * sizeof(double))));

constexpr float kLpbqLowest = -8.0f;
constexpr float kLpbqHighest = 7.0f;
// The largest magnitude of a row is at least 1, so no channel scale comes near this.
constexpr float kBlockFloor = 0x1p-30f;

// The scales at which a block's error is evaluated, relative to the smallest one that clips nothing.
constexpr float kBlockRatios[] = {1.0f, 0.96f, 0.92f, 0.88f, 0.84f, 0.80f, 0.76f, 0.72f, 0.68f, 0.63f, 0.57f, 1.06f};
constexpr int kBlockRatioCount = static_cast<int>(std::size(kBlockRatios));
static_assert(kBlockRatioCount % 4 == 0);

constexpr float kChannelRatios[] = {0.80f, 0.84f, 0.88f, 0.91f, 0.94f, 0.97f, 1.0f, 1.03f, 1.06f, 1.10f, 1.15f, 1.20f};
constexpr int kChannelRatioCount = static_cast<int>(std::size(kChannelRatios));
constexpr int kLpbqRefinements = 2;

constexpr float kInt8Ratios[] = {1.0f, 0.97f, 0.94f, 0.91f, 0.88f, 0.85f, 0.82f, 0.79f, 0.76f, 0.72f, 0.67f, 0.60f};
constexpr int kInt8RatioCount = static_cast<int>(std::size(kInt8Ratios));
static_assert(kInt8RatioCount % 4 == 0);
constexpr int kInt8Refinements = 2;

// Columns summed in float before the sum continues in double.
constexpr int kInt8Chunk = 64;

// The input of the vector code: kSearchLanes rows, transposed and scaled, zero-padded to whole blocks.
struct Rows {
  const float* lanes = nullptr;       // [blocks * block][kSearchLanes]
  const float* importance = nullptr;  // Null, or [blocks * block].
  int64_t blocks = 0;
  int64_t block = 0;
  float* block_scale = nullptr;  // Two tables of [blocks][kSearchLanes]. LPBQ leaves the multipliers in the first.
  int8_t* quantized = nullptr;   // [blocks * block][kSearchLanes]
};
struct Found {
  float scales[kSearchLanes] = {};
};

namespace portable {
#define TANDEM_SEARCH_TARGET
#include "quant/scale_search_lanes.h"
#undef TANDEM_SEARCH_TARGET
}  // namespace portable

#if defined(__x86_64__)
#define TANDEM_SEARCH_HAS_AVX2
namespace avx2 {
#define TANDEM_SEARCH_AVX2
#define TANDEM_SEARCH_TARGET [[gnu::target("avx2")]]
#include "quant/scale_search_lanes.h"
#undef TANDEM_SEARCH_TARGET
#undef TANDEM_SEARCH_AVX2
}  // namespace avx2
#endif

using Search = void (*)(const Rows&, Found&);

Search choose([[maybe_unused]] Search fast, Search portable) {
#if defined(TANDEM_SEARCH_HAS_AVX2)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return fast;
#endif
  return portable;
}

// Transposes and scales the rows, searches, and writes quantized values, multipliers and scales to their destinations.
void run(const SearchTask& task, SearchScratch& scratch, int block, Search search) {
  const int64_t blocks = (task.cols + block - 1) / block;
  const int64_t padded = blocks * block;
  scratch.lanes.assign(static_cast<size_t>(padded * kSearchLanes), 0.0f);
  scratch.quantized.resize(static_cast<size_t>(padded * kSearchLanes));
  scratch.block_scale.resize(static_cast<size_t>(2 * blocks * kSearchLanes));
  if (task.importance != nullptr) {
    scratch.importance.assign(static_cast<size_t>(padded), 0.0f);
    std::copy_n(task.importance, task.cols, scratch.importance.begin());
  }

  int exponents[kSearchLanes] = {};
  bool is_zero[kSearchLanes] = {};
  for (int64_t r = 0; r < task.rows; ++r) {
    const float* row = task.values + r * task.cols;
    uint32_t largest_bits = 0;
    for (int64_t c = 0; c < task.cols; ++c) {
      largest_bits = std::max(largest_bits, std::bit_cast<uint32_t>(row[c]) & 0x7fffffffu);
    }
    const float largest = std::bit_cast<float>(largest_bits);
    is_zero[r] = largest < kSmallestQuantizable;
    if (is_zero[r]) continue;
    exponents[r] = std::ilogb(largest);
    const float factor = std::ldexp(1.0f, -exponents[r]);
    float* lane = scratch.lanes.data() + r;
    for (int64_t c = 0; c < task.cols; ++c) lane[c * kSearchLanes] = row[c] * factor;
  }

  Rows rows;
  rows.lanes = scratch.lanes.data();
  rows.importance = task.importance == nullptr ? nullptr : scratch.importance.data();
  rows.blocks = blocks;
  rows.block = block;
  rows.block_scale = scratch.block_scale.data();
  rows.quantized = scratch.quantized.data();
  Found found;
  search(rows, found);

  for (int64_t r = 0; r < task.rows; ++r) {
    int8_t* quantized = task.quantized + r * task.cols;
    for (int64_t c = 0; c < task.cols; ++c) quantized[c] = scratch.quantized[static_cast<size_t>(c * kSearchLanes + r)];
    // A row of zeros quantizes to 0 at any scale; back ends want a positive one.
    task.scales[r] = is_zero[r] ? kSmallestQuantizable : std::ldexp(found.scales[r], exponents[r]);
    if (task.multipliers == nullptr) continue;
    for (int64_t b = 0; b < blocks; ++b) {
      const float multiplier = scratch.block_scale[static_cast<size_t>(b * kSearchLanes + r)];
      task.multipliers[r * blocks + b] = static_cast<uint8_t>(multiplier);
    }
  }
}

}  // namespace

#if !defined(TANDEM_SEARCH_HAS_AVX2)
namespace avx2 = portable;
#endif

void search_lpbq4(const SearchTask& task, SearchScratch& scratch) {
  run(task, scratch, task.block, choose(avx2::lpbq4, portable::lpbq4));
}
void search_int8(const SearchTask& task, SearchScratch& scratch) {
  run(task, scratch, kInt8Chunk, choose(avx2::int8, portable::int8));
}
void search_lpbq4_portable(const SearchTask& task, SearchScratch& scratch) {
  run(task, scratch, task.block, portable::lpbq4);
}
void search_int8_portable(const SearchTask& task, SearchScratch& scratch) {
  run(task, scratch, kInt8Chunk, portable::int8);
}

}  // namespace tandem
