#include "weights/fake_quant_weights.h"

#include "base/try.h"
#include "quant/quantize.h"

namespace tandem {

Status FakeQuantWeights::read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const {
  TANDEM_TRY(source_.read_rows(name, row_begin, rows, out));
  const int64_t cols = columns_(name);
  TANDEM_ASSIGN(const WeightMatrix matrix, quantize_matrix(out, rows, cols, recipe_.spec_for(name), inline_pool_,
                                                           {.importance = {}, .first_row = row_begin}));
  for (int64_t r = 0; r < rows; ++r) matrix.dequantize_row(r, out + r * cols);
  return ok_status();
}

}  // namespace tandem
