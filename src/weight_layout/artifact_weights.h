// The weights of a file as floats, where the file has them in its own layouts.
#pragma once

#include "artifact/reader.h"
#include "weights/weight_provider.h"

namespace tandem {

class ArtifactWeights final : public WeightProvider {
 public:
  // The artifact must outlive it.
  explicit ArtifactWeights(const Artifact& artifact) : artifact_(artifact) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override;

 private:
  const Artifact& artifact_;
};

}  // namespace tandem
