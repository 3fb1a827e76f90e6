#include "weight_layout/artifact_weights.h"

#include "base/error.h"
#include "weight_layout/bind_matrix.h"

namespace tandem {

Status ArtifactWeights::read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const {
  const WeightEntry* entry = artifact_.find_weight(name);
  if (entry == nullptr) return not_found("the weight \"{}\" is absent", name);
  TANDEM_ASSIGN(const PackedMatrix matrix, bind_matrix(*entry, artifact_));
  for (int64_t r = 0; r < rows; ++r) unpack_row(matrix, row_begin + r, out + r * matrix.cols);
  return artifact_.check();
}

Result<std::vector<float>> ArtifactWeights::read_vector(std::string_view name) const {
  const VectorEntry* entry = artifact_.find_vector(name);
  if (entry == nullptr) return not_found("the vector \"{}\" is absent", name);
  const auto* values = reinterpret_cast<const float*>(artifact_.bytes(entry->data).data());
  std::vector<float> read(values, values + entry->length);
  TANDEM_TRY(artifact_.check());
  return read;
}

}  // namespace tandem
