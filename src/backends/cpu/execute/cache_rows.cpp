#include "backends/cpu/execute/cache_rows.h"

#include "backends/cpu/kernels/kv_layout.h"
#include "base/half.h"

namespace tandem::cpu {
namespace {

KvHead head_of(const CacheState& cache, int64_t head) {
  const int64_t slots = cache.tensor->shape[1], dim = cache.tensor->shape[2];
  KvHead kv;
  kv.dtype = cache.tensor->dtype;
  kv.slots = slots;
  kv.data = static_cast<uint8_t*>(cache.data) + dtype_bytes(kv.dtype, static_cast<size_t>(head * slots * dim));
  if (cache.scale_and_min != nullptr) kv.scale_and_min = cache.scale_and_min + head * slots * 2;
  return kv;
}

}  // namespace

void load_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row) {
  const KvHead kv = head_of(cache, head);
  const int64_t slots = cache.tensor->shape[1], dim = cache.tensor->shape[2];
  const auto index = ir::is_keys(cache.tensor->purpose) ? key_index : value_index;
  for (int64_t d = 0; d < dim; ++d) {
    const int64_t at = index(slots, dim, slot, d);
    if (kv.dtype == DType::kF16) {
      row[d] = f32_from_f16(static_cast<const uint16_t*>(kv.data)[at]);
    } else if (kv.dtype == DType::kU8) {
      const float* const of = kv.scale_and_min + 2 * slot;
      row[d] = of[0] * static_cast<float>(static_cast<const uint8_t*>(kv.data)[at]) + of[1];
    } else {
      row[d] = static_cast<const float*>(kv.data)[at];
    }
  }
}

void store_cache_row(const KernelTable& kernels, const CacheState& cache, int64_t head, int64_t slot,
                     const float* row) {
  const auto store = ir::is_keys(cache.tensor->purpose) ? kernels.store_key : kernels.store_value;
  store(row, cache.tensor->shape[2], slot, head_of(cache, head));
}

}  // namespace tandem::cpu
