// The interpreter's attention over a cache that is updated in place.
#pragma once

#include <cstdint>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "reference/kv_rows.h"

namespace tandem {

struct CacheAttention {
  const float* q = nullptr;     // [tokens, width]
  const float* mask = nullptr;  // [tokens, context]
  const int32_t* positions = nullptr;
  KvRows keys;
  KvRows values;
  int64_t tokens = 0;
  int64_t width = 0;
  int64_t context = 0;
  int64_t kv_heads = 0;
  bool quantized = false;  // As in QuantizedAttention.
  ir::OpAttributes attributes;
};

// y is laid out like q. A query that sees nothing (padding) gives zeros.
void attend_cache(const CacheAttention& work, float* y, ThreadPool& pool);

}  // namespace tandem
