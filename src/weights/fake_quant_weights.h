// A model's weights as a recipe quantizes them, in floats: what the fake-quantized reference computes with.
#pragma once

#include <functional>

#include "base/thread_pool.h"
#include "quant/recipe.h"
#include "weights/weight_provider.h"

namespace tandem {

// Quantizes the requested rows and returns the dequantized values. Rows are independent, so nothing is cached: memory
// stays small, and every read repeats the search for scales.
class FakeQuantWeights final : public WeightProvider {
 public:
  // Both must outlive it. `columns` returns the width of a weight.
  FakeQuantWeights(const WeightProvider& source, const Recipe& recipe,
                   std::function<int64_t(std::string_view name)> columns)
      : source_(source), recipe_(recipe), columns_(std::move(columns)), inline_pool_(1) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override { return source_.read_vector(name); }

 private:
  const WeightProvider& source_;
  const Recipe& recipe_;
  std::function<int64_t(std::string_view)> columns_;
  mutable ThreadPool inline_pool_;  // One thread: the readers are threads already.
};

}  // namespace tandem
