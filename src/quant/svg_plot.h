// Small SVG plots for reports, without scripts or network access.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// Escapes text for HTML and SVG, in elements and in attributes. Control characters become replacement characters.
std::string escape_html(std::string_view text);
// "0.001234", "1.2e+04"; a dash for non-finite values.
std::string short_number(double value);

struct SvgRange {
  double x = 0.0;
  double observed_low = 0.0;
  double observed_high = 0.0;
  double encoded_low = 0.0;
  double encoded_high = 0.0;
};
// One range as a bar: light for the encoded range, dark for the observed one, a mark at zero.
std::string svg_range_bar(const SvgRange& range);
// Ranges over x.
std::string svg_range_plot(std::string_view title, std::span<const SvgRange> ranges);

struct SvgSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; points that are not finite are left out.
  bool thick = false;
};
// Lines over x with a legend.
std::string svg_line_plot(std::string_view y_label, std::span<const SvgSeries> series);

// A histogram as an area with logarithmic heights.
std::string svg_sparkline(std::span<const double> counts);

}  // namespace tandem
