// The results of a calibration as one self-contained HTML page: no network, no scripts.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quant/encoding_table.h"

namespace tandem {

struct CalibrationReportExtras {
  // By tensor name: counts in equal parts of the observed range (Observer::histogram()).
  std::map<std::string, std::vector<double>, std::less<>> histograms;
  // SQNR in dB between the fake-quantized graph and the device, per layer or tensor, in display order. Infinite where
  // both are equal.
  std::vector<std::pair<std::string, double>> device_sqnr;
  // More sections, as HTML, below the summary.
  std::string sections = {};
};

// A table of tensors for each layer with ranges, clipping and SQNR; plots of these over the layers for the residual
// stream, queries, keys, values and the MLP. For an empty table, as fp16 models have, only the extras.
std::string calibration_report_html(const EncodingTable& table, std::string_view title,
                                    const CalibrationReportExtras& extras = {});

// Whether a file is such a report.
bool is_calibration_report(const std::filesystem::path& path);

}  // namespace tandem
