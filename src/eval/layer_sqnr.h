// Where a device diverges from the fake-quantized reference: SQNR layer by layer.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/sqnr.h"
#include "eval/tested_model.h"

namespace tandem {

// Both models compute the same tokens, each with its own keys and values of earlier layers: the noise that a layer adds
// shows as a step from one row to the next.
struct LayerSqnr {
  int64_t layer = 0;
  std::optional<Sqnr> hidden;  // After the layer; only in files compiled with the option `trace`.
  Sqnr keys;
  Sqnr values;
};

// Both models must be of one file whose methods output their new keys and values (NPU files do).
Result<std::vector<LayerSqnr>> compare_layers(TestedModel& wanted, TestedModel& got, std::span<const int32_t> tokens);

// For calibration_report_html(): "layer 3" or "layer 3 keys", in dB.
std::vector<std::pair<std::string, double>> layer_sqnr_list(const std::vector<LayerSqnr>& layers);

}  // namespace tandem
