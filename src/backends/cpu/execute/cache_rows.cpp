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

// A prompt has millions of these numbers, so the order and the dtype are known outside of the loop.
template <int64_t (*Index)(int64_t, int64_t, int64_t, int64_t), typename Number, typename Convert>
void load_numbers(const KvHead& kv, int64_t dim, int64_t slot, float* row, Convert&& convert) {
  const auto* const data = static_cast<const Number*>(kv.data);
  const int64_t slots = kv.slots;
  for (int64_t d = 0; d < dim; ++d) row[d] = convert(data[Index(slots, dim, slot, d)]);
}

template <int64_t (*Index)(int64_t, int64_t, int64_t, int64_t)>
void load_row(const KvHead& kv, int64_t dim, int64_t slot, float* row) {
  if (kv.dtype == DType::kF16) {
    load_numbers<Index, uint16_t>(kv, dim, slot, row, [](uint16_t x) { return f32_from_f16(x); });
  } else if (kv.dtype == DType::kU8) {
    const float scale = kv.scale_and_min[2 * slot], min = kv.scale_and_min[2 * slot + 1];
    load_numbers<Index, uint8_t>(kv, dim, slot, row, [=](uint8_t x) { return scale * static_cast<float>(x) + min; });
  } else {
    load_numbers<Index, float>(kv, dim, slot, row, [](float x) { return x; });
  }
}

}  // namespace

void load_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row) {
  const KvHead kv = head_of(cache, head);
  if (ir::is_keys(cache.tensor->purpose)) {
    load_row<key_index>(kv, cache.tensor->shape[2], slot, row);
  } else {
    load_row<value_index>(kv, cache.tensor->shape[2], slot, row);
  }
}

void store_cache_row(const KernelTable& kernels, const CacheState& cache, int64_t head, int64_t slot,
                     const float* row) {
  const auto store = ir::is_keys(cache.tensor->purpose) ? kernels.store_key : kernels.store_value;
  store(row, cache.tensor->shape[2], slot, head_of(cache, head));
}

}  // namespace tandem::cpu
