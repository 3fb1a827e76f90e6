// Static encodings for an NPU: the float model runs over some text, and the observed activations decide their
// encodings. Done once, on a graph as long as a sample; names are the same in every method, so prefill and decode use
// the same encodings.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "compiler/compile.h"
#include "quant/encoding_table.h"
#include "weights/source_weights.h"
#include "weights/weight_provider.h"

namespace tandem {

struct CalibrationJob {
  const ModelPlan& plan;
  const SourceWeights& weights;
  const Recipe& recipe;
  RangeMethod method = RangeMethod::kMinMax;
  bool method_given = false;
  std::vector<std::vector<int32_t>> samples;
  ProgressCallback progress;
  StopCallback stop;
  std::string source = {};  // What the samples are, for the table.
};

struct Calibration {
  EncodingTable table;
  // By tensor name, for plots: histograms over equal bins of the observed range.
  std::map<std::string, std::vector<double>, std::less<>> histograms;
};
Result<Calibration> calibrate(const CalibrationJob& job, ThreadPool& pool);

}  // namespace tandem
