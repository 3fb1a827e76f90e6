#include "backends/interface/cache_rows.h"

#include "backends/interface/io_conversion.h"
#include "numerics/fake_quant.h"

namespace tandem {
namespace {

struct PlainRow {
  int64_t index = 0;  // Among all rows of the cache.
  int64_t size = 0;
  uint8_t* bytes = nullptr;
};

PlainRow plain_row(const CacheState& cache, int64_t head, int64_t slot) {
  const std::vector<int64_t>& shape = cache.tensor->shape;
  const int64_t index = head * shape[1] + slot, size = shape[2];
  return {index, size,
          static_cast<uint8_t*>(cache.data) + dtype_bytes(cache.tensor->dtype, static_cast<size_t>(index * size))};
}

}  // namespace

void load_plain_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row) {
  const PlainRow from = plain_row(cache, head, slot);
  if (cache.scale_and_min == nullptr) {
    ir::decode_row(cache.tensor->dtype, cache.tensor->encoding, from.bytes, from.size, row);
    return;
  }
  const float scale = cache.scale_and_min[2 * from.index], min = cache.scale_and_min[2 * from.index + 1];
  for (int64_t i = 0; i < from.size; ++i) row[i] = scale * static_cast<float>(from.bytes[i]) + min;
}

void store_plain_cache_row(const CacheState& cache, int64_t head, int64_t slot, const float* row) {
  const PlainRow to = plain_row(cache, head, slot);
  if (cache.scale_and_min == nullptr) {
    ir::encode_row(cache.tensor->dtype, cache.tensor->encoding, row, to.size, to.bytes);
    return;
  }
  const auto size = static_cast<size_t>(to.size);
  const ScaleAndMin chosen = quantize_row_u8({row, size}, {to.bytes, size});
  cache.scale_and_min[2 * to.index] = chosen.scale;
  cache.scale_and_min[2 * to.index + 1] = chosen.min;
}

}  // namespace tandem
