#include "cli/estimate_table.h"

#include <algorithm>

#include "base/format.h"
#include "cli/output.h"
#include "compiler/targets.h"

namespace tandem {
namespace {

double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }
double milliseconds(double us) { return us / 1e3; }

// `share` is empty where it is not known.
void show_row(std::string_view method, std::string_view shard, const Estimate& e, std::string_view share,
              uint64_t uncosted) {
  show("  {:<12} {:<18} {:>8} {:>8} {:>8} {:>9.1f} {:>9.1f} {:>9.1f} {:>9} {:>9}", method, shard, e.us_lower, e.us,
       e.us_upper, megabytes(e.ddr_read_bytes), megabytes(e.spill_bytes), megabytes(e.fill_bytes), share, uncosted);
}

void show_header(std::string_view share) {
  show("  {:<12} {:<18} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9}", "method", "shard", "us from", "likely", "to",
       "MB read", "spilled", "filled", share, "uncosted");
}

void show_method(const EstimateReport& report, const MethodEstimate& method) {
  const auto share = [&](const Estimate& e) {
    return str_format("{:.0f} %", 100.0 * report.share_of_streaming_rate(e));
  };
  if (method.shards.size() > 1) {
    for (const auto& [name, e] : method.shards) show_row(method.name, name, e, share(e), e.uncosted_ops.size());
  }
  show_row(method.name, method.shards.size() > 1 ? "all" : method.shards.front().name, method.total,
           share(method.total), method.total.uncosted_ops.size());
}

// Their time is missing in the sums, so they are named.
void show_uncosted(const MethodEstimate& method) {
  const auto& ops = method.total.uncosted_ops;
  if (!ops.empty()) show("  without a cost in {}: {}", method.name, describe_uncosted(ops));
}

void show_sums(double tokens_per_second, uint64_t bytes_per_token) {
  show("  {:.1f} tokens per second, {:.1f} MB read per token", tokens_per_second, megabytes(bytes_per_token));
}

void show_first_token(int64_t prompt, double us) {
  show("  first token after {} tokens: {:.1f} ms", prompt, milliseconds(us));
}

}  // namespace

void show_estimates(const EstimateReport& report) {
  show("estimate of {}; by the simulator in Qualcomm's compiler, not measured", describe_simulated(report));
  show_header("of rate");
  for (const MethodEstimate& method : report.methods) show_method(report, method);
  show_method(report, report.lm_head);
  for (const MethodEstimate& method : report.methods) show_uncosted(method);
  show_uncosted(report.lm_head);
  const StreamingRate rate = report.streaming_rate();
  show("  rate: {:.1f} GB/s, as {} reads weights", rate.bytes_per_us / 1e3,
       rate.of_head ? "the LM head" : str_format("a large LM head on V{}", report.arch));
  show_sums(report.tokens_per_second(), report.bytes_per_token());
  for (const int64_t prompt : report.shown_prompts()) show_first_token(prompt, report.first_token_us(prompt));
}

void show_estimates(const StoredEstimate& stored, uint32_t soc_model) {
  show("estimate   of {}{}; by the simulator in Qualcomm's compiler, not measured",
       stored.soc_model == soc_model ? "" : "a relative: ",
       device_name(stored.soc_model) + (stored.soc_model == soc_model ? "" : " in place of " + device_name(soc_model)));
  show_header("");
  for (const auto& method : stored.methods) show_row(method.name, "", method.estimate, "", method.uncosted_ops);
  show_sums(stored.tokens_per_second, stored.bytes_per_token);
  for (const auto& [prompt, us] : stored.first_token_us) show_first_token(prompt, us);
}

Json estimates_json(const StoredEstimate& stored, uint32_t soc_model) {
  Json methods = Json::array(), first_tokens = Json::array();
  for (const auto& [name, e, uncosted] : stored.methods) {
    Json method = {{"name", name}, {"uncosted_ops", uncosted}};
    for (const auto& [field, member] : kEstimateFields) method[field] = e.*member;
    methods.push_back(std::move(method));
  }
  for (const auto& [prompt, us] : stored.first_token_us) {
    first_tokens.push_back({{"prompt", prompt}, {"ms", milliseconds(us)}});
  }
  return {{"estimate_of", device_name(stored.soc_model)},
          {"is_relative", stored.soc_model != soc_model},
          {"soc_model", stored.soc_model},
          {"methods", methods},
          {"tokens_per_second", stored.tokens_per_second},
          {"bytes_per_token", stored.bytes_per_token},
          {"first_token", first_tokens}};
}

}  // namespace tandem
