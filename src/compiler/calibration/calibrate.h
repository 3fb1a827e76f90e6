// Static encodings for an NPU: the float model computes some text, and what its activations looked like decides how
// they are encoded. Done once, on a graph as long as a sample; names are the same in every method, so prefill and
// decode take the same encodings.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "quant/encoding_table.h"
#include "weights/checkpoint_weights.h"
#include "weights/weight_provider.h"

namespace tandem {

struct CalibrationJob {
  const ModelPlan& plan;
  const CheckpointWeights& weights;
  const Recipe& recipe;
  RangeMethod method = RangeMethod::kMinMax;
  bool method_given = false;
  std::vector<std::vector<int32_t>> samples;
  ProgressCallback progress;
  StopCallback stop;
};

struct Calibration {
  EncodingTable table;
  // By tensor name, for plots: how many values were in each of equal parts of the range that was seen.
  std::map<std::string, std::vector<double>, std::less<>> histograms;
};
Result<Calibration> calibrate(const CalibrationJob& job, ThreadPool& pool);

}  // namespace tandem
