// Stacked bars as SVG, for reports.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct SvgBar {
  std::string label;
  std::vector<double> parts;  // From left to right; names and colors go by index.
  std::string note;           // After the bar.
  double low = 0.0;           // Bounds of the sum, drawn as a line across its end where low < high.
  double high = 0.0;
};
// One row per bar with a common scale from zero, and a legend of the parts. Parts that are negative or not finite count
// as zero; empty if there is nothing to draw.
std::string svg_stacked_bars(std::string_view title, std::span<const std::string> part_names,
                             std::span<const SvgBar> bars);

}  // namespace tandem
