#include "backends/qnn/compile/estimate_html.h"

#include <algorithm>
#include <iterator>

#include "base/format.h"
#include "quant/svg_bars.h"
#include "quant/svg_plot.h"

namespace tandem {
namespace {

double milliseconds(uint64_t us) { return static_cast<double>(us) / 1e3; }
double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

std::vector<const MethodEstimate*> all_methods(const EstimateReport& report) {
  std::vector<const MethodEstimate*> list;
  for (const MethodEstimate& method : report.methods) list.push_back(&method);
  list.push_back(&report.lm_head);
  return list;
}

std::string time_by_shard(const EstimateReport& report) {
  std::vector<std::string> shards;
  for (const MethodEstimate* method : all_methods(report)) {
    for (const auto& shard : method->shards) {
      if (std::ranges::find(shards, shard.name) == shards.end()) shards.push_back(shard.name);
    }
  }
  std::vector<SvgBar> bars;
  for (const MethodEstimate* method : all_methods(report)) {
    const qnn::Estimate& e = method->total;
    SvgBar bar{method->name, std::vector<double>(shards.size()), str_format("{:.2f} ms", milliseconds(e.us)),
               milliseconds(e.us_lower), milliseconds(e.us_upper)};
    for (const auto& shard : method->shards) {
      const auto place = std::ranges::find(shards, shard.name) - shards.begin();
      bar.parts[static_cast<size_t>(place)] += milliseconds(shard.estimate.us);
    }
    bars.push_back(std::move(bar));
  }
  return svg_stacked_bars("Time of a call by shard, ms; the line is the range of the estimate", shards, bars);
}

std::string traffic_by_kind(const EstimateReport& report) {
  const std::vector<std::string> kinds = {"weights and inputs read", "spills read back", "spills written",
                                          "outputs written"};
  std::vector<SvgBar> bars;
  for (const MethodEstimate* method : all_methods(report)) {
    const qnn::Estimate& e = method->total;
    SvgBar bar;
    bar.label = method->name;
    for (const uint64_t bytes : {e.ddr_read_bytes, e.fill_bytes, e.spill_bytes, e.ddr_write_bytes}) {
      bar.parts.push_back(megabytes(bytes));
    }
    bar.note = str_format("{:.1f} MB", bar.parts[0] + bar.parts[1] + bar.parts[2] + bar.parts[3]);
    bars.push_back(std::move(bar));
  }
  return svg_stacked_bars("Traffic with memory of a call by kind, MB", kinds, bars);
}

void write_table(std::string& out, const EstimateReport& report) {
  out += "<table><thead><tr><th class=\"n\">method</th><th>µs</th><th>from</th><th>to</th><th>MB read</th>";
  out +=
      "<th>spilled</th><th>filled</th><th>of the streaming rate</th><th class=\"n\">without a cost</th></tr></thead>";
  out += "<tbody>\n";
  for (const MethodEstimate* method : all_methods(report)) {
    const qnn::Estimate& e = method->total;
    append_format(
        out,
        "<tr><td class=\"n\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td><td>{:.1f}</td><td>{:.1f}</td>"
        "<td>{:.0f} %</td><td class=\"n\">{}</td></tr>\n",
        escape_html(method->name), e.us, e.us_lower, e.us_upper, megabytes(e.ddr_read_bytes), megabytes(e.spill_bytes),
        megabytes(e.fill_bytes), 100.0 * report.share_of_streaming_rate(e),
        escape_html(describe_uncosted(e.uncosted_ops)));
  }
  out += "</tbody></table>\n";
}

}  // namespace

std::string estimate_html(const EstimateReport& report) {
  std::string out = "<h2>Estimated speed</h2>\n";
  append_format(out, "<p>Of {}; by the simulator in Qualcomm's compiler, not measured.</p>\n",
                escape_html(describe_simulated(report)));
  append_format(out, "<p>{:.1f} tokens per second, {:.1f} MB read per token; first token after",
                report.tokens_per_second(), megabytes(report.bytes_per_token()));
  std::string_view separator = " ";
  for (const int64_t prompt : report.shown_prompts()) {
    append_format(out, "{}{} tokens: {:.1f} ms", separator, prompt, report.first_token_us(prompt) / 1e3);
    separator = ", ";
  }
  append_format(out, ".</p>\n<div>{}</div>\n<div>{}</div>\n", time_by_shard(report), traffic_by_kind(report));
  write_table(out, report);
  return out;
}

}  // namespace tandem
