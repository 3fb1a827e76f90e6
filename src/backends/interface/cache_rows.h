// Rows of key and value caches as floats, for handing a conversation from one program to another.
#pragma once

#include <cstdint>

#include "ir/graph.h"

namespace tandem {

// The memory of a state that is a key or value cache, [heads, slots, size].
struct CacheState {
  const ir::Tensor* tensor = nullptr;
  void* data = nullptr;
  float* scale_and_min = nullptr;  // Of caches with an encoding for each row: [heads, slots, 2]; else null.
};

// For caches whose numbers are in the order of their shape.
void load_plain_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row);
void store_plain_cache_row(const CacheState& cache, int64_t head, int64_t slot, const float* row);

}  // namespace tandem
