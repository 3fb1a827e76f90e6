// Float weights that come from a checkpoint: what calibration runs and the compiler quantizes.
#pragma once

#include "checkpoint/checkpoint.h"
#include "models/model_plan.h"
#include "weights/weight_provider.h"

namespace tandem {

class SourceWeights : public WeightProvider {
 public:
  // Calls visit with the checkpoint bytes that a weight or a vector is made from, a few MB at a time, and releases
  // their pages afterwards. What other tensors of the same layer add to it (transformed_weights.h) is not repeated:
  // finished work is kept by layer, so that its checksum has their bytes anyway.
  virtual Status visit_source(std::string_view name, const Checkpoint::ByteVisitor& visit) const = 0;

  // Releases the pages of these rows.
  virtual void release_rows(const WeightSource& source, int64_t row_begin, int64_t rows) const = 0;
};

}  // namespace tandem
