// Rows of this back end's caches, whose numbers are in an order of their own (kernels/kv_layout.h).
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/interface/cache_rows.h"

namespace tandem::cpu {

void load_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row);
void store_cache_row(const KernelTable& kernels, const CacheState& cache, int64_t head, int64_t slot, const float* row);

}  // namespace tandem::cpu
