#include "artifact/header.h"

#include <array>

namespace tandem {

std::string_view weight_layout_name(WeightLayout layout) {
  constexpr std::array<std::string_view, kWeightLayoutCount> kNames = {"panel16", "rows"};
  return kNames[static_cast<size_t>(layout)];
}

uint64_t stored_weight_bytes(const ArtifactHeader& header) {
  uint64_t bytes = 0;
  for (const WeightEntry& weight : header.weights) bytes += weight.bytes();
  for (const VectorEntry& vector : header.vectors) bytes += vector.data.size;
  return bytes;
}

}  // namespace tandem
