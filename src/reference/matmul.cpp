#include "reference/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/target_clones.h"

namespace tandem {
namespace {

using Lanes = float __attribute__((vector_size(64)));
constexpr int64_t kLanes = 16;

}  // namespace

TANDEM_CLONES void sum_weighted_rows(const float* weights, const float* rows, int64_t count, int64_t dim, float* y) {
  constexpr int64_t kColumns = 4 * kLanes;
  for (int64_t begin = 0; begin < dim; begin += kColumns) {
    const int64_t columns = std::min(kColumns, dim - begin);
    float sums[kColumns] = {};
    for (int64_t j = 0; j < count; ++j) {
      if (weights[j] == 0.0f) continue;
      const float* const row = rows + j * dim + begin;
      if (columns == kColumns) {
        for (int64_t i = 0; i < kColumns; ++i) sums[i] += weights[j] * row[i];
      } else {
        for (int64_t i = 0; i < columns; ++i) sums[i] += weights[j] * row[i];
      }
    }
    std::copy_n(sums, columns, y + begin);
  }
}

TANDEM_CLONES float dot(const float* a, const float* b, int64_t count) {
  Lanes sums = {};
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    Lanes av, bv;
    std::memcpy(&av, a + k, sizeof(Lanes));
    std::memcpy(&bv, b + k, sizeof(Lanes));
    sums += av * bv;
  }
  float sum = 0.0f;
  for (; k < count; ++k) sum += a[k] * b[k];
  for (int lane = 0; lane < kLanes; ++lane) sum += sums[lane];
  return sum;
}

}  // namespace tandem
