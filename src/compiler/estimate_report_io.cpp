// Estimates as JSON, as metrics of a file, and back from those.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "compiler/estimate_report.h"

namespace tandem {
namespace {

constexpr std::string_view kKind = "tandem estimate";
constexpr std::string_view kPrefix = "estimate.";
constexpr std::string_view kFirstToken = "first_token_us.";
constexpr uint64_t kMaxReportBytes = uint64_t{64} << 20;

Json estimate_json(const EstimateReport& report, const std::string& name, const Estimate& estimate) {
  Json json = {{"name", name},
               {"uncosted_ops", estimate.uncosted_ops.size()},
               {"uncosted_op_names", estimate.uncosted_ops},
               {"share_of_streaming_rate", report.share_of_streaming_rate(estimate)}};
  for (const auto& [key, member] : kEstimateFields) json[key] = estimate.*member;
  return json;
}

Json method_json(const EstimateReport& report, const MethodEstimate& method) {
  Json json = estimate_json(report, method.name, method.total);
  json["tokens"] = method.tokens;
  json["shards"] = Json::array();
  for (const auto& shard : method.shards) json["shards"].push_back(estimate_json(report, shard.name, shard.estimate));
  return json;
}

// A count stored in a metric; metrics are doubles, from files that anyone may have written.
uint64_t count_of(double value) {
  constexpr double kMost = 9007199254740992.0;  // 2^53
  return value >= 0.0 && value <= kMost ? static_cast<uint64_t>(value) : 0;
}

void read_method(StoredEstimate& stored, std::string_view name, std::string_view field, double value) {
  auto method = std::ranges::find(stored.methods, name, &StoredEstimate::Method::name);
  const auto get = [&]() -> StoredEstimate::Method& {
    if (method != stored.methods.end()) return *method;
    return stored.methods.emplace_back(StoredEstimate::Method{std::string(name), {}, 0});
  };
  if (field == "uncosted_ops") get().uncosted_ops = count_of(value);
  for (const auto& [key, member] : kEstimateFields) {
    if (field == key) get().estimate.*member = count_of(value);
  }
}

}  // namespace

Json EstimateReport::to_json() const {
  Json list = Json::array();
  for (const MethodEstimate& method : methods) list.push_back(method_json(*this, method));
  list.push_back(method_json(*this, lm_head));
  Json first_tokens = Json::array();
  for (const int64_t prompt : shown_prompts()) {
    first_tokens.push_back({{"prompt", prompt}, {"ms", first_token_us(prompt) / 1e3}});
  }
  const StreamingRate rate = streaming_rate();
  return {{"kind", kKind},
          {"target", target},
          {"estimate_of", simulated},
          {"is_relative", of_relative()},
          {"soc_model", soc_model},
          {"hexagon", arch},
          {"vtcm_mb", vtcm_mb},
          {"context", context},
          {"streaming_gb_per_second", rate.bytes_per_us / 1e3},
          {"streaming_rate_of", rate.of_head ? "head" : "architecture"},
          {"methods", list},
          {"tokens_per_second", tokens_per_second()},
          {"bytes_per_token", bytes_per_token()},
          {"first_token", first_tokens}};
}

bool is_estimate_file(const std::filesystem::path& path) {
  const auto text = read_text_file(path, kMaxReportBytes);
  if (!text.ok()) return false;
  const auto json = parse_json(*text, path.string());
  return json.ok() && json->is_object() && json->value("kind", Json()) == kKind;
}

std::vector<Metric> EstimateReport::metrics() const {
  std::vector<Metric> result;
  const auto put = [&](const std::string& name, double value) {
    result.push_back({std::string(kPrefix) + name, value});
  };
  put("soc_model", soc_model);
  put("tokens_per_second", tokens_per_second());
  put("bytes_per_token", static_cast<double>(bytes_per_token()));
  for (const int64_t prompt : shown_prompts()) put(str_format("{}{}", kFirstToken, prompt), first_token_us(prompt));
  const auto put_method = [&](const MethodEstimate& method) {
    for (const auto& [key, member] : kEstimateFields) {
      put(str_format("{}.{}", method.name, key), static_cast<double>(method.total.*member));
    }
    put(method.name + ".uncosted_ops", static_cast<double>(method.total.uncosted_ops.size()));
  };
  for (const MethodEstimate& method : methods) put_method(method);
  put_method(lm_head);
  return result;
}

bool is_estimate_metric(const Metric& metric) { return metric.name.starts_with(kPrefix); }

std::optional<StoredEstimate> stored_estimate(std::span<const Metric> metrics) {
  StoredEstimate stored;
  for (const Metric& metric : metrics) {
    if (!is_estimate_metric(metric)) continue;
    std::string_view name = std::string_view(metric.name).substr(kPrefix.size());
    if (name == "soc_model")
      stored.soc_model = static_cast<uint32_t>(std::min(count_of(metric.value), uint64_t{UINT32_MAX}));
    if (name == "tokens_per_second" && std::isfinite(metric.value)) stored.tokens_per_second = metric.value;
    if (name == "bytes_per_token") stored.bytes_per_token = count_of(metric.value);
    if (name.starts_with(kFirstToken)) {
      name.remove_prefix(kFirstToken.size());
      int64_t prompt = 0;
      const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), prompt);
      if (error == std::errc() && end == name.data() + name.size() && prompt > 0 && std::isfinite(metric.value)) {
        stored.first_token_us.emplace_back(prompt, metric.value);
      }
      continue;
    }
    const size_t dot = name.rfind('.');
    if (dot != std::string_view::npos && dot > 0) {
      read_method(stored, name.substr(0, dot), name.substr(dot + 1), metric.value);
    }
  }
  if (stored.methods.empty()) return std::nullopt;
  return stored;
}

}  // namespace tandem
