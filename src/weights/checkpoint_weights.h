// A model's float weights, read from its checkpoint by canonical name.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/model_plan.h"
#include "weights/weight_provider.h"

namespace tandem {

class CheckpointWeights final : public WeightProvider {
 public:
  // Both must outlive it.
  CheckpointWeights(const Checkpoint& checkpoint, const ModelPlan& plan) : checkpoint_(checkpoint), plan_(plan) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override;

  // Calls visit with the checkpoint bytes that a weight or a vector is made from, a few MB at a time, and releases
  // their pages afterwards.
  Status visit_source(std::string_view name, const Checkpoint::ByteVisitor& visit) const;

  // Releases the pages of these rows.
  void release_rows(const WeightSource& source, int64_t row_begin, int64_t rows) const;

 private:
  const Checkpoint& checkpoint_;
  const ModelPlan& plan_;
};

}  // namespace tandem
