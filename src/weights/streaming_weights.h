// A checkpoint's weights, released as soon as they are read: for a single pass over all of them.
#pragma once

#include "base/try.h"
#include "weights/source_weights.h"

namespace tandem {

class StreamingWeights final : public WeightProvider {
 public:
  // Both must outlive it.
  StreamingWeights(const SourceWeights& weights, const ModelPlan& plan) : weights_(weights), plan_(plan) {}
  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    TANDEM_TRY(weights_.read_rows(name, row_begin, rows, out));
    weights_.release_rows(*plan_.find_weight(name), row_begin, rows);
    return ok_status();
  }
  Result<std::vector<float>> read_vector(std::string_view name) const override { return weights_.read_vector(name); }

 private:
  const SourceWeights& weights_;
  const ModelPlan& plan_;
};

}  // namespace tandem
