// What tuning did to a weight.
#pragma once

#include <cstdint>
#include <string>

#include "quant/quantize.h"

namespace tandem {

struct TunedWeight {
  std::string name;
  WeightSpec spec;
  int64_t weights = 0;
  // Signal to noise of the layer's output over the samples, in dB: rounded without looking at data, and as tuned.
  // Infinity if nothing was lost.
  double before_db = 0.0;
  double after_db = 0.0;
};

}  // namespace tandem
