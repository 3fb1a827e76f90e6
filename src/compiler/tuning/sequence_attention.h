// Attention of whole sequences over themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "linalg/multiply.h"

namespace tandem {

struct SequenceAttention {
  const float* q = nullptr;  // [rows, width]
  const float* k = nullptr;  // [rows, kv_heads * head_dim]
  const float* v = nullptr;
  float* y = nullptr;  // [rows, width]
  std::span<const int64_t> lengths;
  int64_t width = 0;
  int64_t kv_heads = 0;
  const ir::OpAttributes& attributes;  // Of the attention op.
};

// Causal, with the op's window and softcap. `scratch` has one for each thread.
void attend_sequences(const SequenceAttention& work, std::span<MultiplyScratch> scratch, ThreadPool& pool);

}  // namespace tandem
