// A model's float weights, read from its checkpoint by canonical name.
#pragma once

#include "weights/source_weights.h"

namespace tandem {

class CheckpointWeights final : public SourceWeights {
 public:
  // Both must outlive it.
  CheckpointWeights(const Checkpoint& checkpoint, const ModelPlan& plan) : checkpoint_(checkpoint), plan_(plan) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override;

  Status visit_source(std::string_view name, const Checkpoint::ByteVisitor& visit) const override;
  void release_rows(const WeightSource& source, int64_t row_begin, int64_t rows) const override;

 private:
  const Checkpoint& checkpoint_;
  const ModelPlan& plan_;
};

}  // namespace tandem
