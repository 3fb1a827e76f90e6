#include "quant/svg_bars.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"
#include "quant/svg_plot.h"

namespace tandem {
namespace {

constexpr std::string_view kPartColors[] = {"#3366cc", "#ff9900", "#109618", "#dc3912", "#990099",
                                            "#0099c6", "#dd4477", "#66aa00", "#b82e2e", "#8b6d3f"};
constexpr double kChartWidth = 900.0, kChartLeft = 90.0, kChartRight = 640.0, kChartTop = 24.0, kRow = 24.0,
                 kBar = 16.0;
constexpr double kLegendColumn = 200.0, kLegendRow = 15.0;
constexpr size_t kLegendColumns = 4;

double drawn(double value) { return std::isfinite(value) ? std::max(value, 0.0) : 0.0; }

std::string_view color_of(size_t part) { return kPartColors[part % std::size(kPartColors)]; }

void write_bar(std::string& out, const SvgBar& bar, std::span<const std::string> names, double y, double scale) {
  append_format(out, "<text class=\"y\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", kChartLeft - 6.0, y + kBar - 4.0,
                escape_html(bar.label));
  double x = kChartLeft;
  for (size_t i = 0; i < bar.parts.size(); ++i) {
    const double width = drawn(bar.parts[i]) * scale;
    if (!(width > 0.0)) continue;
    append_format(
        out,
        "<rect fill=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.0f}\"><title>{}: {}</title></rect>",
        color_of(i), x, y, width, kBar, i < names.size() ? escape_html(names[i]) : "", short_number(bar.parts[i]));
    x += width;
  }
  if (drawn(bar.low) < drawn(bar.high)) {
    append_format(out, "<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#222\" stroke-width=\"2\"/>",
                  kChartLeft + drawn(bar.low) * scale, y + kBar / 2.0, kChartLeft + drawn(bar.high) * scale);
    x = std::max(x, kChartLeft + drawn(bar.high) * scale);
  }
  append_format(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", x + 6.0, y + kBar - 4.0, escape_html(bar.note));
}

}  // namespace

std::string svg_stacked_bars(std::string_view title, std::span<const std::string> part_names,
                             std::span<const SvgBar> bars) {
  double most = 0.0;
  for (const SvgBar& bar : bars) {
    double sum = 0.0;
    for (const double part : bar.parts) sum += drawn(part);
    most = std::max({most, sum, drawn(bar.high)});
  }
  if (!(most > 0.0) || !std::isfinite(most)) return {};
  const double scale = (kChartRight - kChartLeft) / most;
  const double legend = kChartTop + kRow * static_cast<double>(bars.size()) + 10.0;
  const size_t legend_rows = (part_names.size() + kLegendColumns - 1) / kLegendColumns;
  std::string out = str_format("<svg width=\"{:.0f}\" height=\"{:.0f}\">", kChartWidth,
                               legend + kLegendRow * static_cast<double>(legend_rows) + 4.0);
  append_format(out, "<text class=\"t\" x=\"{:.0f}\" y=\"13\">{}</text>", kChartLeft, escape_html(title));
  for (size_t i = 0; i < bars.size(); ++i) {
    write_bar(out, bars[i], part_names, kChartTop + kRow * static_cast<double>(i), scale);
  }
  for (size_t i = 0; i < part_names.size(); ++i) {
    const double x = kChartLeft + kLegendColumn * static_cast<double>(i % kLegendColumns);
    const double y = legend + kLegendRow * static_cast<double>(i / kLegendColumns);
    append_format(out, "<rect fill=\"{}\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"10\" height=\"10\"/>", color_of(i), x, y);
    append_format(out, "<text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", x + 14.0, y + 9.0, escape_html(part_names[i]));
  }
  return out + "</svg>";
}

}  // namespace tandem
