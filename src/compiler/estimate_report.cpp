#include "compiler/estimate_report.h"

#include <algorithm>
#include <map>
#include <utility>

#include "backends/interface/method_selection.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

// With a smaller LM head, the start of a call outweighs streaming.
constexpr uint64_t kTellingHeadBytes = uint64_t{32} << 20;

constexpr int64_t kShownPrompts[] = {128, 512, 1024};

}  // namespace

double EstimateReport::us_per_token() const {
  return static_cast<double>(methods.front().total.us) + static_cast<double>(lm_head.total.us);
}

double EstimateReport::tokens_per_second() const {
  const double us = us_per_token();
  return us > 0.0 ? 1e6 / us : 0.0;
}

uint64_t EstimateReport::bytes_per_token() const {
  const auto reads = [](const Estimate& e) { return e.ddr_read_bytes + e.fill_bytes; };
  return reads(methods.front().total) + reads(lm_head.total);
}

double EstimateReport::first_token_us(int64_t prompt) const {
  auto us = static_cast<double>(lm_head.total.us);
  for (int64_t remaining = prompt; remaining > 0;) {
    const MethodEstimate& method = ir::choose_method(std::span(methods), remaining);
    us += static_cast<double>(method.total.us);
    remaining -= method.tokens;
  }
  return us;
}

std::vector<int64_t> EstimateReport::shown_prompts() const {
  std::vector<int64_t> prompts;
  for (const int64_t prompt : kShownPrompts) {
    if (prompt <= context) prompts.push_back(prompt);
  }
  if (prompts.empty()) prompts.push_back(context);
  return prompts;
}

StreamingRate EstimateReport::streaming_rate() const {
  StreamingRate rate;
  rate.bytes_per_us = arch_bytes_per_us;
  const Estimate& head = lm_head.total;
  if (head.us == 0 || head.ddr_read_bytes < kTellingHeadBytes) return rate;
  // An LM head in 4 bits is not bound by memory: then the bound is what int8 reaches.
  const double of_head = static_cast<double>(head.ddr_read_bytes) / static_cast<double>(head.us);
  if (of_head > rate.bytes_per_us) rate = {of_head, true};
  return rate;
}

double EstimateReport::share_of_streaming_rate(const Estimate& estimate) const {
  const double rate = streaming_rate().bytes_per_us;
  if (estimate.us == 0 || !(rate > 0.0)) return 0.0;
  return static_cast<double>(estimate.ddr_read_bytes) / static_cast<double>(estimate.us) / rate;
}

std::string describe_uncosted(std::span<const std::string> ops) {
  std::map<std::string, std::vector<std::string>> types;
  for (const std::string& op : ops) {
    const size_t colon = op.rfind(':');
    types[op.substr(colon + 1)].push_back(colon == std::string::npos ? "" : op.substr(0, colon));
  }
  std::string text;
  for (const auto& [type, names] : types) {
    const std::string& name = *std::ranges::min_element(names);
    text += str_format("{}{} {}", text.empty() ? "" : ", ", names.size(), type);
    if (!name.empty()) text += str_format(" ({}{})", name, names.size() > 1 ? ", …" : "");
  }
  return text;
}

std::string describe_simulated(const EstimateReport& report) {
  const std::string simulated = str_format("{} (SoC {}, Hexagon V{}, {} MB of VTCM)", report.simulated,
                                           report.soc_model, report.arch, report.vtcm_mb);
  if (!report.of_relative()) return simulated;
  return str_format("a relative: {} in place of {} (V{}{})", simulated, report.target, report.target_arch,
                    report.of_other_arch() ? ", another architecture" : "");
}

}  // namespace tandem
