// The scale search for int8 and LPBQ rows: the inner part of quantize_matrix(), for rows already validated.
#pragma once

#include <cstdint>
#include <vector>

namespace tandem {

// Rows searched side by side, one to a vector lane. Every lane computes as if it were alone.
inline constexpr int kSearchLanes = 8;

// Up to kSearchLanes rows in, their quantized values and scales out. `importance` is null or has `cols` numbers > 0.
struct SearchTask {
  const float* values = nullptr;  // [rows, cols]; finite, at most kLargestQuantizable.
  int64_t rows = 0;               // 1..kSearchLanes
  int64_t cols = 0;
  int block = 0;  // LPBQ only.
  const float* importance = nullptr;
  int8_t* quantized = nullptr;     // [rows, cols]
  uint8_t* multipliers = nullptr;  // [rows, blocks]; LPBQ only.
  float* scales = nullptr;         // [rows]
};

// Memory of one thread, kept from task to task.
struct SearchScratch {
  std::vector<float> lanes;        // [padded cols][kSearchLanes]
  std::vector<float> importance;   // [padded cols]
  std::vector<float> block_scale;  // [blocks][kSearchLanes]
  std::vector<int8_t> quantized;   // [padded cols][kSearchLanes]
};

void search_lpbq4(const SearchTask& task, SearchScratch& scratch);
void search_int8(const SearchTask& task, SearchScratch& scratch);

// The same without run-time dispatch; for tests, which demand equal results.
void search_lpbq4_portable(const SearchTask& task, SearchScratch& scratch);
void search_int8_portable(const SearchTask& task, SearchScratch& scratch);

}  // namespace tandem
