// Which weight goes into which segment of the file, and where.
#pragma once

#include <string>
#include <vector>

#include "artifact/header.h"
#include "artifact/writer.h"
#include "models/model_plan.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

struct SegmentPlan {
  std::string name;  // "embedding", "layers.0", ..., "head", "tokenizer"
  uint64_t size = 0;
  std::vector<size_t> weights;  // Indices into FilePlan::weights.
  std::vector<size_t> vectors;  // Indices into FilePlan::vectors.
  std::vector<uint8_t> blob;    // Ready-made bytes, such as the tokenizer's.
};

struct FilePlan {
  std::vector<SegmentPlan> segments;
  std::vector<WeightEntry> weights;
  std::vector<VectorEntry> vectors;
  Range tokenizer;

  uint64_t total_bytes() const;
  std::vector<PlannedSegment> planned_segments() const;
};

// One segment per layer, so that readers can load or verify the file layer by layer. All weights and vectors of the
// methods' graphs are assigned; the same name in several methods is one weight. `layout` is that of all weights: panels
// to multiply with, or rows to look up. `kept` are graphs whose weights are stored as panels, but that are no methods.
Result<FilePlan> plan_file(const std::vector<ir::Graph>& methods, std::vector<uint8_t> tokenizer,
                           WeightLayout layout = WeightLayout::kPanel16, const std::vector<ir::Graph>& kept = {});

}  // namespace tandem
