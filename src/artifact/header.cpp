#include "artifact/header.h"

#include <array>
#include <utility>

namespace tandem {

std::string_view weight_layout_name(WeightLayout layout) {
  constexpr std::array<std::string_view, kWeightLayoutCount> kNames = {"panel16", "rows"};
  return kNames[static_cast<size_t>(layout)];
}

ProgramHeader first_program(ArtifactHeader header) {
  return {.target = std::move(header.target),
          .backend = std::move(header.backend),
          .weights = std::move(header.weights),
          .vectors = std::move(header.vectors),
          .methods = std::move(header.methods),
          .recipe = std::move(header.recipe),
          .metrics = std::move(header.metrics),
          .device = std::move(header.device),
          .shards = std::move(header.shards),
          .calibration = std::move(header.calibration)};
}

ArtifactHeader with_program(ArtifactHeader header, ProgramHeader program) {
  header.target = std::move(program.target);
  header.backend = std::move(program.backend);
  header.weights = std::move(program.weights);
  header.vectors = std::move(program.vectors);
  header.methods = std::move(program.methods);
  header.recipe = std::move(program.recipe);
  header.metrics = std::move(program.metrics);
  header.device = std::move(program.device);
  header.shards = std::move(program.shards);
  header.calibration = std::move(program.calibration);
  header.more_programs.clear();
  return header;
}

std::vector<bool> used_segments(const ArtifactHeader& header) {
  std::vector<bool> used(header.segments.size(), false);
  const auto use = [&](const Range& range) {
    if (range.size > 0) used[range.segment] = true;
  };
  for (const WeightEntry& weight : header.weights) {
    for (const Range* part : {&weight.data, &weight.scales, &weight.multipliers}) use(*part);
  }
  for (const VectorEntry& vector : header.vectors) use(vector.data);
  for (const Shard& shard : header.shards) use(shard.binary);
  use(header.text.tokenizer);
  return used;
}

uint64_t stored_weight_bytes(const ArtifactHeader& header) {
  uint64_t bytes = 0;
  for (const WeightEntry& weight : header.weights) bytes += weight.bytes();
  for (const VectorEntry& vector : header.vectors) bytes += vector.data.size;
  return bytes;
}

}  // namespace tandem
