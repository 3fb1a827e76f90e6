// Where the interpreter reads its weights from: a checkpoint, quantized weights, or an artifact.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

class WeightProvider {
 public:
  virtual ~WeightProvider() = default;
  // Rows of a weight as floats; `out` holds rows * cols. Any number of threads may call it.
  virtual Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const = 0;
  virtual Result<std::vector<float>> read_vector(std::string_view name) const = 0;
};

}  // namespace tandem
