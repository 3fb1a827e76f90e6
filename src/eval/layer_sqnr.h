// Where a device parts from the fake-quantized reference: signal to noise ratios layer by layer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/sqnr.h"
#include "eval/tested_model.h"

namespace tandem {

// Both models compute the same tokens, each with its own keys and values of the layers before: what a layer adds to the
// noise shows as a step from one row to the next.
struct LayerSqnr {
  int64_t layer = 0;
  std::optional<Sqnr> hidden;  // After the layer; of files that were compiled with the option `trace`.
  Sqnr keys;
  Sqnr values;
};

// Both models must be of one file whose methods give their new keys and values (files for an NPU do).
Result<std::vector<LayerSqnr>> compare_layers(TestedModel& wanted, TestedModel& got, std::span<const int32_t> tokens);

// For calibration_report_html(): "layer 3" or "layer 3 keys", in dB.
std::vector<std::pair<std::string, double>> layer_sqnr_list(const std::vector<LayerSqnr>& layers);

}  // namespace tandem
