#include "quant/calibration_report.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>

#include "base/format.h"
#include "base/output_path.h"
#include "ir/purpose.h"
#include "quant/observer.h"
#include "quant/svg_plot.h"

namespace tandem {
namespace {

// Below this a tensor is shown in red: a thousandth of its power is noise.
constexpr double kLowSqnr = 30.0;
constexpr double kMuchClipped = 1e-3;
constexpr size_t kWorst = 10;
constexpr size_t kMaxPanels = 24;
constexpr size_t kMaxSeries = 12;

// The marker that identifies a report.
constexpr std::string_view kReportStart =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta name=\"generator\" content=\"tandem calibration\"/>";

constexpr std::string_view kStyle = R"(
body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:1080px;padding:0 1em;color:#222}
h1{font-size:1.6em}h2{font-size:1.2em;margin-top:2em}
table{border-collapse:collapse}th,td{padding:2px 10px;text-align:right;border-bottom:1px solid #eee;white-space:nowrap}
th{color:#666;font-weight:600}td.n,th.n{text-align:left;font-family:ui-monospace,monospace}
tr.low td{background:#fff0ee}details{margin:.4em 0}summary{cursor:pointer;font-weight:600}
svg{vertical-align:middle}svg text{font:10px system-ui,sans-serif;fill:#444}svg .t{font-weight:600;font-size:11px}
svg .y{text-anchor:end}svg .x{text-anchor:middle}
.enc{fill:#c9d8f2}.obs{fill:#2f5597}.zero{fill:#999}.frame{fill:none;stroke:#ccc}.note{color:#666}
)";

// A tensor's layer and part: "layers.3.mlp.residual" is {3, "mlp.residual"}, "k_cache.3" {3, "k_cache"}.
struct TensorLocation {
  std::optional<int> layer;
  std::string part;  // Without "[64:128]": the heads of one tensor are plotted together.
};

std::string without_brackets(std::string_view text) {
  std::string out;
  int depth = 0;
  for (const char c : text) {
    if (c == '[') ++depth;
    if (depth == 0) out += c;
    if (c == ']' && depth > 0) --depth;
  }
  return out;
}

TensorLocation locate_tensor(std::string_view name) {
  const ir::NameParts parts = ir::split_name(name);
  if (parts.layer < 0) return {std::nullopt, std::string(name)};
  return {parts.layer, without_brackets(parts.part)};
}

// The residual stream, queries, keys and values, the MLP.
bool is_main(std::string_view part) {
  if (part.ends_with("residual")) return true;
  for (const std::string_view start : {"attention.q", "attention.k", "attention.v", "mlp.", "k_", "v_"}) {
    if (part.starts_with(start)) return true;
  }
  return false;
}

struct Row {
  std::string_view name;
  const TensorEncoding* e;
};

SvgRange range_of(const TensorEncoding& e, double x) {
  const Interval encoded = encoded_range(e.dtype, e.encoding);
  return {x, e.observed_min, e.observed_max, encoded.low, encoded.high};
}

std::string percent(double share) {
  return std::isfinite(share) ? (share == 0.0 ? "0" : str_format("{:.3g} %", share * 100.0)) : "–";
}
std::string decibels(double db) {
  if (std::isinf(db)) return db > 0.0 ? "equal" : "–";
  return std::isnan(db) ? "–" : str_format("{:.1f}", db);
}

void write_rows(std::string& out, const std::vector<Row>& rows, const CalibrationReportExtras& extras) {
  const bool plots = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
    return extras.histograms.find(row.name) != extras.histograms.end();
  });
  out += "<table><thead><tr><th class=\"n\">tensor</th><th>dtype</th><th>observed</th><th>encoded</th><th>range</th>";
  out += "<th>clipped</th><th>SQNR, dB</th><th>method</th>";
  if (plots) out += "<th>histogram (log)</th>";
  out += "</tr></thead><tbody>\n";
  for (const auto& [name, e] : rows) {
    const SvgRange range = range_of(*e, 0.0);
    const bool low = e->sqnr_db < kLowSqnr || e->clipped > kMuchClipped;
    append_format(out, "<tr{}><td class=\"n\">{}</td><td>{}</td><td>{} … {}</td><td>{} … {}</td><td>{}</td>",
                  low ? " class=\"low\"" : "", escape_html(name), dtype_name(e->dtype), short_number(e->observed_min),
                  short_number(e->observed_max), short_number(range.encoded_low), short_number(range.encoded_high),
                  svg_range_bar(range));
    append_format(out, "<td>{}</td><td>{}</td><td>{}</td>", percent(e->clipped), decibels(e->sqnr_db),
                  escape_html(e->method));
    if (plots) {
      const auto counts = extras.histograms.find(name);
      append_format(out, "<td>{}</td>",
                    counts == extras.histograms.end() ? std::string() : svg_sparkline(counts->second));
    }
    out += "</tr>\n";
  }
  out += "</tbody></table>\n";
}

void write_worst(std::string& out, const EncodingTable& table, const CalibrationReportExtras& extras) {
  const auto write = [&](std::string_view heading, auto relevant, auto worse) {
    std::vector<Row> rows;
    for (const auto& [name, e] : table.entries()) {
      if (relevant(e)) rows.push_back({name, &e});
    }
    if (rows.empty()) return;
    std::stable_sort(rows.begin(), rows.end(), [&](const Row& a, const Row& b) { return worse(*a.e, *b.e); });
    rows.resize(std::min(rows.size(), kWorst));
    append_format(out, "<h2>{}</h2>\n", heading);
    write_rows(out, rows, extras);
  };
  write(
      "Lowest SQNR", [](const TensorEncoding& e) { return !std::isnan(e.sqnr_db); },
      [](const TensorEncoding& a, const TensorEncoding& b) { return a.sqnr_db < b.sqnr_db; });
  write(
      "Most clipped", [](const TensorEncoding& e) { return e.clipped > 0.0; },
      [](const TensorEncoding& a, const TensorEncoding& b) { return a.clipped > b.clipped; });
}

// What the plots show of one part of the layers, all its heads together.
struct LayerStats {
  SvgRange range;
  double sqnr_db = std::numeric_limits<double>::quiet_NaN();
};
using Parts = std::map<std::string, std::map<int, LayerStats>, NaturalOrder>;

double lower(double a, double b) { return std::isnan(a) || b < a ? b : a; }

void write_plots(std::string& out, const EncodingTable& table) {
  Parts parts;
  std::map<int, double> worst;
  for (const auto& [name, e] : table.entries()) {
    const TensorLocation location = locate_tensor(name);
    if (!location.layer) continue;
    const auto at = worst.try_emplace(*location.layer, std::numeric_limits<double>::quiet_NaN()).first;
    at->second = lower(at->second, e.sqnr_db);
    if (!is_main(location.part)) continue;
    const SvgRange range = range_of(e, *location.layer);
    const auto [stats, first] = parts[location.part].try_emplace(*location.layer, LayerStats{range});
    SvgRange& all = stats->second.range;
    all.observed_low = std::min(all.observed_low, range.observed_low);
    all.observed_high = std::max(all.observed_high, range.observed_high);
    all.encoded_low = std::min(all.encoded_low, range.encoded_low);
    all.encoded_high = std::max(all.encoded_high, range.encoded_high);
    stats->second.sqnr_db = lower(stats->second.sqnr_db, e.sqnr_db);
  }
  if (parts.empty()) return;

  out += "<h2>Ranges per layer</h2>\n<p class=\"note\">Light: encoded. Dark: observed.</p>\n<div>\n";
  size_t panels = 0;
  for (const auto& [part, layers] : parts) {
    if (++panels > kMaxPanels) break;
    std::vector<SvgRange> ranges;
    for (const auto& [layer, stats] : layers) ranges.push_back(stats.range);
    out += svg_range_plot(part, ranges) + "\n";
  }
  out += "</div>\n";

  std::vector<SvgSeries> series(1);
  series[0] = {"lowest of the layer", {worst.begin(), worst.end()}, true};
  for (const auto& [part, layers] : parts) {
    if (series.size() > kMaxSeries) break;
    SvgSeries line{part, {}, false};
    for (const auto& [layer, stats] : layers) line.points.emplace_back(layer, stats.sqnr_db);
    series.push_back(std::move(line));
  }
  const std::string plot = svg_line_plot("SQNR in dB over the layers", series);
  if (!plot.empty()) append_format(out, "<h2>SQNR per layer</h2>\n<div>{}</div>\n", plot);
}

void write_device(std::string& out, const CalibrationReportExtras& extras) {
  if (extras.device_sqnr.empty()) return;
  out += "<h2>Device against the fake-quantized graph</h2>\n";
  SvgSeries series{"SQNR, dB", {}, true};
  for (size_t i = 0; i < extras.device_sqnr.size(); ++i) {
    series.points.emplace_back(static_cast<double>(i), extras.device_sqnr[i].second);
  }
  append_format(out, "<div>{}</div>\n", svg_line_plot("SQNR in dB, in the order of the table", std::span(&series, 1)));
  out += "<table><thead><tr><th class=\"n\">tensor</th><th>SQNR, dB</th></tr></thead><tbody>\n";
  for (const auto& [name, db] : extras.device_sqnr) {
    append_format(out, "<tr{}><td class=\"n\">{}</td><td>{}</td></tr>\n", db < kLowSqnr ? " class=\"low\"" : "",
                  escape_html(name), decibels(db));
  }
  out += "</tbody></table>\n";
}

void write_summary(std::string& out, const EncodingTable& table) {
  if (table.size() == 0) {
    out += "<p>No encodings: nothing was calibrated.</p>\n";
    return;
  }
  size_t u8 = 0, clipped = 0;
  for (const auto& [name, e] : table.entries()) {
    u8 += e.dtype == DType::kU8;
    clipped += e.clipped > 0.0;
  }
  append_format(out, "<p>{} tensors: {} of u16, {} of u8; {} with values outside of their range.</p>\n", table.size(),
                table.size() - u8, u8, clipped);
  if (table.calibration().empty()) return;
  out += "<table><tbody>\n";
  for (const auto& [key, value] : table.calibration().items()) {
    append_format(out, "<tr><th class=\"n\">{}</th><td class=\"n\">{}</td></tr>\n", escape_html(key),
                  escape_html(value.is_string() ? value.get<std::string>() : dump_json(value)));
  }
  out += "</tbody></table>\n";
}

}  // namespace

bool is_calibration_report(const std::filesystem::path& path) { return file_starts_with(path, kReportStart); }

std::string calibration_report_html(const EncodingTable& table, std::string_view title,
                                    const CalibrationReportExtras& extras) {
  std::string out;
  append_format(out, "{}<meta charset=\"utf-8\"/><title>{}</title><style>{}</style></head>\n<body>\n<h1>{}</h1>\n",
                kReportStart, escape_html(title), kStyle, escape_html(title));
  write_summary(out, table);
  out += extras.sections;
  write_plots(out, table);
  write_device(out, extras);
  write_worst(out, table, extras);

  std::map<int, std::vector<Row>> layers;
  std::vector<Row> others;
  for (const auto& [name, e] : table.entries()) {
    const TensorLocation location = locate_tensor(name);
    (location.layer ? layers[*location.layer] : others).push_back({name, &e});
  }
  if (table.size() != 0) out += "<h2>All tensors</h2>\n";
  if (!others.empty()) {
    out += "<details open=\"open\"><summary>Outside of the layers</summary>\n";
    write_rows(out, others, extras);
    out += "</details>\n";
  }
  for (const auto& [layer, rows] : layers) {
    double worst = std::numeric_limits<double>::quiet_NaN();
    for (const Row& row : rows) worst = lower(worst, row.e->sqnr_db);
    append_format(out, "<details><summary>Layer {}: {} tensors, lowest SQNR {} dB</summary>\n", layer, rows.size(),
                  decibels(worst));
    write_rows(out, rows, extras);
    out += "</details>\n";
  }
  out += "</body></html>\n";
  return out;
}

}  // namespace tandem
