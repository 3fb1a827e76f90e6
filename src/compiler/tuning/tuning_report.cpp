#include "compiler/tuning/tuning_report.h"

#include <algorithm>
#include <array>
#include <map>

#include "base/atomic_file.h"
#include "base/format.h"
#include "quant/calibration_report.h"
#include "quant/svg_bars.h"
#include "quant/svg_plot.h"

namespace tandem {
namespace {

std::string format_of(const WeightSpec& spec) {
  if (spec.format != WeightFormat::kLpbq4) return std::string(weight_format_name(spec.format));
  return str_format("lpbq4/{}", spec.block);
}

// The average bits of each layer's matrices, by format.
std::string bits_picture(const ModelPlan& plan, const Recipe& recipe) {
  std::vector<std::string> formats;
  std::vector<std::map<std::string, double>> bits(plan.layers.size());
  std::vector<double> weights(plan.layers.size());
  for (const WeightSource& weight : plan.weights) {
    if (weight.purpose.layer < 0) continue;
    const WeightSpec spec = recipe.spec_for(weight.name);
    const std::string format = format_of(spec);
    if (std::ranges::find(formats, format) == formats.end()) formats.push_back(format);
    const auto layer = static_cast<size_t>(weight.purpose.layer);
    const auto count = static_cast<double>(weight.rows * weight.cols);
    bits[layer][format] += count * bits_per_weight(spec);
    weights[layer] += count;
  }
  std::ranges::sort(formats);
  std::vector<SvgBar> bars;
  for (size_t layer = 0; layer < bits.size(); ++layer) {
    SvgBar bar;
    bar.label = str_format("layer {}", layer);
    double sum = 0.0;
    for (const std::string& format : formats) {
      bar.parts.push_back(weights[layer] > 0.0 ? bits[layer][format] / weights[layer] : 0.0);
      sum += bar.parts.back();
    }
    bar.note = str_format("{:.2f}", sum);
    bars.push_back(std::move(bar));
  }
  return svg_stacked_bars("Bits per weight, by the format that they are in", formats, bars);
}

std::string weight_rows(const Recipe& recipe, const CompileReport& report) {
  std::map<std::string_view, const TunedWeight*> tuned;
  std::vector<std::string_view> names;
  for (const TunedWeight& weight : report.tuned) {
    tuned[weight.name] = &weight;
    names.push_back(weight.name);
  }
  for (const auto& [name, kl] : report.sensitivities) {
    if (!tuned.contains(name)) names.push_back(name);
  }
  std::string rows;
  for (const std::string_view name : names) {
    const WeightSpec spec = recipe.spec_for(name);
    const auto it = tuned.find(name);
    const auto kl = report.sensitivities.find(std::string(name));
    rows += str_format("<tr><td>{}</td><td>{}</td><td>{:.3f}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                       escape_html(name), format_of(spec), bits_per_weight(spec),
                       it == tuned.end() ? "" : short_number(it->second->before_db),
                       it == tuned.end() ? "" : short_number(it->second->after_db),
                       kl == report.sensitivities.end() ? "" : short_number(kl->second));
  }
  return rows;
}

}  // namespace

std::string tuning_section_html(const ModelPlan& plan, const Recipe& recipe, const CompileReport& report) {
  if (report.tuned.empty() && report.sensitivities.empty()) return {};
  return str_format(
      "<h2>Weights</h2>\n<p>{}</p>\n{}\n<table>\n<tr><th>weight</th><th>format</th><th>bits</th>"
      "<th>output without data (dB)</th><th>output tuned (dB)</th><th>KL of rounding it alone</th></tr>\n{}</table>\n",
      escape_html(report.calibration.empty() ? "" : "Calibrated on " + report.calibration + "."),
      bits_picture(plan, recipe), weight_rows(recipe, report));
}

Status write_tuning_page(const CompileJob& job, const CompileReport& report) {
  const std::filesystem::path& path = job.options().calibration.report;
  if (path.empty()) return ok_status();
  CalibrationReportExtras extras;
  extras.sections = tuning_section_html(job.plan(), job.recipe(), report);
  const std::string title = str_format("{} for {}", job.checkpoint().name(), job.target().name);
  return write_file_atomically(path, calibration_report_html({}, title, extras));
}

}  // namespace tandem
