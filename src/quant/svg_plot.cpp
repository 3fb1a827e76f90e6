#include "quant/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/format.h"

namespace tandem {
namespace {

constexpr std::string_view kSeriesColors[] = {"#3366cc", "#dc3912", "#ff9900", "#109618", "#990099",
                                              "#0099c6", "#dd4477", "#66aa00", "#b82e2e", "#8b6d3f"};

// From an interval of values to one of pixels.
class Axis {
 public:
  Axis(double low, double high, double first_pixel, double last_pixel) : low_(low), first_(first_pixel) {
    // A single value is drawn in the middle.
    const double span = high - low;
    if (!(span > 0.0)) {
      low_ = low - 0.5;
      per_unit_ = last_pixel - first_pixel;
    } else {
      per_unit_ = (last_pixel - first_pixel) / span;
    }
  }
  double operator()(double value) const { return first_ + (value - low_) * per_unit_; }

 private:
  double low_;
  double first_;
  double per_unit_;
};

struct Extent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return !(low <= high); }
};

bool finite(const SvgRange& r) {
  return std::isfinite(r.x) && std::isfinite(r.observed_low) && std::isfinite(r.observed_high) &&
         std::isfinite(r.encoded_low) && std::isfinite(r.encoded_high);
}

Extent values_of(const SvgRange& r) {
  Extent extent;
  for (const double value : {0.0, r.observed_low, r.observed_high, r.encoded_low, r.encoded_high}) extent.add(value);
  return extent;
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      case '\t':
      case '\n': out += c; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          out += "\xef\xbf\xbd";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string short_number(double value) { return std::isfinite(value) ? str_format("{:.4g}", value) : "–"; }

std::string svg_range_bar(const SvgRange& range) {
  if (!finite(range)) return {};
  constexpr double kWidth = 160.0;
  const Extent extent = values_of(range);
  const Axis x(extent.low, extent.high, 1.0, kWidth - 1.0);
  const double encoded = x(range.encoded_low), observed = x(range.observed_low);
  return str_format(
      "<svg width=\"{:.0f}\" height=\"12\"><rect class=\"enc\" x=\"{:.1f}\" y=\"1\" width=\"{:.1f}\" height=\"10\"/>"
      "<rect class=\"obs\" x=\"{:.1f}\" y=\"4\" width=\"{:.1f}\" height=\"4\"/>"
      "<rect class=\"zero\" x=\"{:.1f}\" y=\"0\" width=\"1\" height=\"12\"/></svg>",
      kWidth, encoded, std::max(x(range.encoded_high) - encoded, 1.0), observed,
      std::max(x(range.observed_high) - observed, 1.0), x(0.0));
}

std::string svg_range_plot(std::string_view title, std::span<const SvgRange> ranges) {
  Extent xs, ys;
  size_t drawn = 0;
  for (const SvgRange& r : ranges) {
    if (!finite(r)) continue;
    ++drawn;
    xs.add(r.x);
    const Extent values = values_of(r);
    ys.add(values.low);
    ys.add(values.high);
  }
  if (drawn == 0) return {};
  constexpr double kWidth = 320.0, kHeight = 130.0, kLeft = 52.0, kRight = 314.0, kTop = 22.0, kBottom = 112.0;
  const Axis x(xs.low, xs.high, kLeft + 6.0, kRight - 6.0), y(ys.low, ys.high, kBottom, kTop);
  const double bar = std::clamp((kRight - kLeft) / static_cast<double>(drawn) * 0.7, 1.5, 12.0);
  std::string out = str_format("<svg width=\"{:.0f}\" height=\"{:.0f}\">", kWidth, kHeight);
  append_format(out, "<text class=\"t\" x=\"{:.0f}\" y=\"13\">{}</text>", kLeft, escape_html(title));
  append_format(out, "<text class=\"y\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", kLeft - 4, kTop + 6,
                short_number(ys.high));
  append_format(out, "<text class=\"y\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>", kLeft - 4, kBottom, short_number(ys.low));
  append_format(out, "<text class=\"x\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x(xs.low), kBottom + 13,
                short_number(xs.low));
  if (xs.high > xs.low) {
    append_format(out, "<text class=\"x\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x(xs.high), kBottom + 13,
                  short_number(xs.high));
  }
  append_format(out, "<rect class=\"zero\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"{:.0f}\" height=\"0.6\"/>", kLeft, y(0.0),
                kRight - kLeft);
  for (const SvgRange& r : ranges) {
    if (!finite(r)) continue;
    const double center = x(r.x);
    append_format(out, "<g><title>{}: {} to {}, encoded {} to {}</title>", short_number(r.x),
                  short_number(r.observed_low), short_number(r.observed_high), short_number(r.encoded_low),
                  short_number(r.encoded_high));
    append_format(out, "<rect class=\"enc\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
                  center - bar / 2, y(r.encoded_high), bar, std::max(y(r.encoded_low) - y(r.encoded_high), 0.5));
    append_format(out, "<rect class=\"obs\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/></g>",
                  center - bar / 6, y(r.observed_high), bar / 3, std::max(y(r.observed_low) - y(r.observed_high), 0.5));
  }
  return out + "</svg>";
}

std::string svg_line_plot(std::string_view y_label, std::span<const SvgSeries> series) {
  const auto drawable = [](const std::pair<double, double>& p) {
    return std::isfinite(p.first) && std::isfinite(p.second);
  };
  Extent xs, ys;
  for (const SvgSeries& s : series) {
    for (const auto& point : s.points) {
      if (!drawable(point)) continue;
      xs.add(point.first);
      ys.add(point.second);
    }
  }
  if (xs.empty()) return {};
  constexpr double kWidth = 900.0, kLeft = 52.0, kRight = 640.0, kTop = 22.0, kBottom = 232.0, kLegend = 660.0,
                   kLine = 15.0;
  const double height = std::max(kBottom + 28.0, kTop + kLine * static_cast<double>(series.size()) + 10.0);
  const Axis x(xs.low, xs.high, kLeft + 8.0, kRight - 8.0), y(ys.low, ys.high, kBottom - 4.0, kTop + 4.0);
  std::string out = str_format("<svg width=\"{:.0f}\" height=\"{:.0f}\">", kWidth, height);
  append_format(out, "<text class=\"t\" x=\"{:.0f}\" y=\"13\">{}</text>", kLeft, escape_html(y_label));
  append_format(out, "<rect class=\"frame\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\"/>", kLeft,
                kTop, kRight - kLeft, kBottom - kTop);
  for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    const double value = ys.low + (ys.high - ys.low) * share;
    append_format(out, "<text class=\"y\" x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", kLeft - 4, y(value) + 3,
                  short_number(value));
    if (!(ys.high > ys.low)) break;
  }
  append_format(out, "<text class=\"x\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x(xs.low), kBottom + 14,
                short_number(xs.low));
  if (xs.high > xs.low) {
    append_format(out, "<text class=\"x\" x=\"{:.1f}\" y=\"{:.0f}\">{}</text>", x(xs.high), kBottom + 14,
                  short_number(xs.high));
  }
  for (size_t i = 0; i < series.size(); ++i) {
    const SvgSeries& s = series[i];
    const std::string_view color = s.thick ? "#222222" : kSeriesColors[i % std::size(kSeriesColors)];
    append_format(out, "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" points=\"", color,
                  s.thick ? 2.5 : 1.2);
    for (const auto& point : s.points) {
      if (drawable(point)) append_format(out, "{:.1f},{:.1f} ", x(point.first), y(point.second));
    }
    out += "\"/>";
    for (const auto& point : s.points) {
      if (!drawable(point)) continue;
      append_format(out, "<circle fill=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"><title>{} {}: {}</title></circle>",
                    color, x(point.first), y(point.second), escape_html(s.name), short_number(point.first),
                    short_number(point.second));
    }
    const double row = kTop + kLine * static_cast<double>(i) + 8.0;
    append_format(out, "<rect fill=\"{}\" x=\"{:.0f}\" y=\"{:.1f}\" width=\"12\" height=\"3\"/>", color, kLegend,
                  row - 4.0);
    append_format(out, "<text x=\"{:.0f}\" y=\"{:.1f}\">{}</text>", kLegend + 18.0, row, escape_html(s.name));
  }
  return out + "</svg>";
}

std::string svg_sparkline(std::span<const double> counts) {
  constexpr double kWidth = 160.0, kHeight = 24.0;
  double most = 0.0;
  for (const double count : counts) {
    if (std::isfinite(count)) most = std::max(most, count);
  }
  if (!(most > 0.0)) return {};
  const double step = kWidth / static_cast<double>(counts.size());
  std::string out =
      str_format("<svg width=\"{:.0f}\" height=\"{:.0f}\"><path class=\"obs\" d=\"M0 {:.0f}", kWidth, kHeight, kHeight);
  for (size_t i = 0; i < counts.size(); ++i) {
    const double count = std::isfinite(counts[i]) ? std::max(counts[i], 0.0) : 0.0;
    append_format(out, "L{:.1f} {:.1f}H{:.1f}", static_cast<double>(i) * step,
                  kHeight - (kHeight - 1.0) * (std::log1p(count) / std::log1p(most)),
                  static_cast<double>(i + 1) * step);
  }
  append_format(out, "V{:.0f}Z\"/></svg>", kHeight);
  return out;
}

}  // namespace tandem
