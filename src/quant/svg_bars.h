// Stacked bars as SVG, for reports.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem {

struct SvgBar {
  std::string label;
  std::vector<double> parts;  // From left to right; each has the name and the color of its place.
  std::string note;           // Behind the bar.
  double low = 0.0;           // Bounds of the sum, drawn as a line across its end where low < high.
  double high = 0.0;
};
// One row per bar with a common scale from zero, and a legend of the parts. Parts that are negative or not finite count
// as zero; without any to draw it is empty.
std::string svg_stacked_bars(std::string_view title, std::span<const std::string> part_names,
                             std::span<const SvgBar> bars);

}  // namespace tandem
