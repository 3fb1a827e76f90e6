// Estimates added up over shards and over a prompt's calls, with made-up numbers; also written and read back.
#include "compiler/estimate_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backends/qnn/compile/estimate_html.h"
#include "backends/qnn/compile/npu_estimates.h"
#include "backends/qnn/compile/npu_support.h"
#include "quant/svg_bars.h"

namespace tandem {
namespace estimate_report_test {

using test::TempFolder;

constexpr uint64_t kMega = 1'000'000;

Estimate estimate(uint64_t us, uint64_t read, std::vector<std::string> uncosted = {}) {
  return {us, us - us / 10, us + us / 5, read, 3, 20, 30, std::move(uncosted)};
}

const std::vector<MethodShape> kShapes = {{"decode", 1, 1024}, {"prefill_32", 32, 1024}, {"prefill_128", 128, 1024}};
const std::vector<ShardRange> kShards = {
    {"layers.0-1", 0, 2, false, 1}, {"layers.2-3", 2, 4, false, 1}, {"head", 4, 4, true, 1}};

std::vector<ShardResult> sample_results() {
  std::vector<ShardResult> results(3);
  const auto add = [](ShardResult& result, std::string name, Estimate e) {
    ShardResult::GraphResult graph;
    graph.name = std::move(name);
    graph.estimate = std::move(e);
    result.graphs.push_back(std::move(graph));
  };
  // In another order than the methods.
  add(results[0], "prefill_128.layers.0-1", estimate(500, 30 * kMega));
  add(results[0], "decode.layers.0-1", estimate(100, 4 * kMega, {"layers.1.q.rope:RotaryEmbedding", "a:Reshape"}));
  add(results[0], "prefill_32.layers.0-1", estimate(150, 5 * kMega));
  add(results[1], "decode.layers.2-3", estimate(110, 6 * kMega, {"layers.2.q.rope:RotaryEmbedding"}));
  add(results[1], "prefill_32.layers.2-3", estimate(160, 5 * kMega));
  add(results[1], "prefill_128.layers.2-3", estimate(520, 30 * kMega));
  add(results[2], "head", estimate(2000, 100 * kMega));
  return results;
}

EstimateReport sample_report(const char* target = "sa8255") {
  const NpuTarget& compiled = npu_target(target);
  auto report = make_estimate_report(compiled, estimated_as(compiled), 8, kShapes, kShards, sample_results());
  EXPECT_TRUE(report.ok()) << report.error().message;
  return report.ok() ? *std::move(report) : EstimateReport{};
}

TEST(EstimateReport, AddsUpShards) {
  const EstimateReport report = sample_report();
  ASSERT_EQ(report.methods.size(), 3u);
  EXPECT_EQ(report.methods[0].name, "decode");
  EXPECT_EQ(report.methods[2].tokens, 128);
  const Estimate& decode = report.methods[0].total;
  EXPECT_EQ(decode.us, 210u);
  EXPECT_EQ(decode.us_lower, 90u + 99u);
  EXPECT_EQ(decode.us_upper, 120u + 132u);
  EXPECT_EQ(decode.ddr_read_bytes, 10 * kMega);
  EXPECT_EQ(decode.ddr_write_bytes, 6u);
  EXPECT_EQ(decode.spill_bytes, 40u);
  EXPECT_EQ(decode.fill_bytes, 60u);
  EXPECT_EQ(decode.uncosted_ops.size(), 3u);
  EXPECT_EQ(describe_uncosted(decode.uncosted_ops), "1 Reshape (a), 2 RotaryEmbedding (layers.1.q.rope, …)");
  EXPECT_EQ(describe_uncosted({}), "");
  EXPECT_EQ(describe_uncosted(std::vector<std::string>{"unnamed"}), "1 unnamed");
  ASSERT_EQ(report.methods[0].shards.size(), 2u);
  EXPECT_EQ(report.methods[0].shards[1].name, "layers.2-3");
  EXPECT_EQ(report.methods[0].shards[1].estimate.us, 110u);
  ASSERT_EQ(report.lm_head.shards.size(), 1u);
  EXPECT_EQ(report.lm_head.total.us, 2000u);
}

TEST(EstimateReport, TokensAndPrompts) {
  EstimateReport report = sample_report();
  EXPECT_DOUBLE_EQ(report.us_per_token(), 2210.0);
  EXPECT_DOUBLE_EQ(report.tokens_per_second(), 1e6 / 2210.0);
  EXPECT_EQ(report.bytes_per_token(), 110 * kMega + 60 + 30) << "what is filled is read too";
  // As MethodTable splits prompts: the longest while it can be filled, then the shortest that fits the rest.
  const double decode = 210, short_one = 310, long_one = 1020, head = 2000;
  EXPECT_DOUBLE_EQ(report.first_token_us(1), decode + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(2), short_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(32), short_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(33), long_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(40), long_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(127), long_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(128), long_one + head);
  EXPECT_DOUBLE_EQ(report.first_token_us(300), 3 * long_one + head);
  EXPECT_EQ(report.shown_prompts(), (std::vector<int64_t>{128, 512, 1024}));
  report.context = 1000;
  EXPECT_EQ(report.shown_prompts(), (std::vector<int64_t>{128, 512}));
  report.context = 64;
  EXPECT_EQ(report.shown_prompts(), (std::vector<int64_t>{64}));
  // Mode kv: one call a token.
  report.methods.resize(1);
  EXPECT_DOUBLE_EQ(report.first_token_us(64), 64 * decode + head);
}

TEST(EstimateReport, TheStreamingRateIsTheHeadsOrTheArchitectures) {
  EstimateReport report = sample_report();
  EXPECT_TRUE(report.streaming_rate().of_head);
  EXPECT_DOUBLE_EQ(report.streaming_rate().bytes_per_us, 50e3) << "100 MB in 2 ms";
  EXPECT_DOUBLE_EQ(report.share_of_streaming_rate(report.lm_head.total), 1.0);
  EXPECT_DOUBLE_EQ(report.share_of_streaming_rate(report.methods[0].total), 10e6 / 210.0 / 50e3);
  report.lm_head.total.us = 4000;  // An LM head of 4 bits, for example, is not bound by memory.
  EXPECT_FALSE(report.streaming_rate().of_head);
  EXPECT_DOUBLE_EQ(report.streaming_rate().bytes_per_us, 45.6e3);
  report.lm_head.total = estimate(10, 600'000);  // 60 GB/s, but too small to say anything.
  EXPECT_DOUBLE_EQ(report.streaming_rate().bytes_per_us, 45.6e3);
  report.arch_bytes_per_us = measured_streaming_rate(81);
  EXPECT_DOUBLE_EQ(report.streaming_rate().bytes_per_us, 67.7e3);
  report.arch_bytes_per_us = measured_streaming_rate(68);
  EXPECT_DOUBLE_EQ(report.streaming_rate().bytes_per_us, 44.6e3);
  EXPECT_DOUBLE_EQ(report.share_of_streaming_rate(Estimate{}), 0.0);
}

TEST(EstimateReport, SaysWhoWasSimulated) {
  const EstimateReport own = sample_report();
  EXPECT_FALSE(own.of_relative());
  EXPECT_EQ(describe_simulated(own), "sa8255 (SoC 52, Hexagon V73, 8 MB of VTCM)");
  const EstimateReport twin = sample_report("sm8550");
  EXPECT_TRUE(twin.of_relative());
  EXPECT_FALSE(twin.of_other_arch());
  EXPECT_EQ(describe_simulated(twin),
            "a relative: sa8255 (SoC 52, Hexagon V73, 8 MB of VTCM) in place of sm8550 (V73)");
  const EstimateReport cousin = sample_report("sm8750");
  EXPECT_TRUE(cousin.of_other_arch());
  EXPECT_HAS(describe_simulated(cousin), "in place of sm8750 (V79, another architecture)");
}

TEST(EstimateReport, AGraphWithoutAnEstimateIsAnError) {
  const NpuTarget& target = npu_target("sa8255");
  std::vector<ShardResult> results = sample_results();
  results[1].graphs[1].estimate.reset();
  auto report = make_estimate_report(target, target, 8, kShapes, kShards, results);
  ASSERT_FALSE(report.ok());
  EXPECT_HAS(report.error().message, "prefill_32.layers.2-3");
  results = sample_results();
  results[2].graphs.clear();
  report = make_estimate_report(target, target, 8, kShapes, kShards, results);
  ASSERT_FALSE(report.ok());
  EXPECT_HAS(report.error().message, "head");
}

TEST(EstimateReport, AsJson) {
  const Json json = sample_report("sm8750").to_json();
  EXPECT_EQ(json["target"], "sm8750");
  EXPECT_EQ(json["estimate_of"], "sa8797");
  EXPECT_EQ(json["is_relative"], true);
  EXPECT_EQ(json["soc_model"], 72);
  ASSERT_EQ(json["methods"].size(), 4u);
  const Json& decode = json["methods"][0];
  EXPECT_EQ(decode["name"], "decode");
  EXPECT_EQ(decode["us"], 210);
  EXPECT_EQ(decode["us_lower"], 189);
  EXPECT_EQ(decode["us_upper"], 252);
  EXPECT_EQ(decode["ddr_read_bytes"], 10 * kMega);
  EXPECT_EQ(decode["ddr_write_bytes"], 6);
  EXPECT_EQ(decode["spill_bytes"], 40);
  EXPECT_EQ(decode["fill_bytes"], 60);
  EXPECT_EQ(decode["uncosted_ops"], 3);
  EXPECT_EQ(decode["uncosted_op_names"].size(), 3u);
  ASSERT_EQ(decode["shards"].size(), 2u);
  EXPECT_EQ(decode["shards"][0]["name"], "layers.0-1");
  EXPECT_EQ(decode["shards"][0]["us"], 100);
  EXPECT_EQ(decode["shards"][0]["uncosted_ops"], 2);
  EXPECT_EQ(json["methods"][3]["name"], "head");
  EXPECT_NEAR(json["tokens_per_second"].get<double>(), 452.49, 0.01);
  EXPECT_EQ(json["first_token"][0]["prompt"], 128);
  EXPECT_NEAR(json["first_token"][0]["ms"].get<double>(), 3.02, 1e-9);

  const TempFolder folder;
  test::write_file(folder / "estimate.json", json.dump(2));
  EXPECT_TRUE(is_estimate_file(folder / "estimate.json"));
  for (const char* other : {"", "{}", "[]", "{\"kind\": 7}", "{\"kind\": \"tandem estimates\"}", "nothing"}) {
    test::write_file(folder / "other.json", std::string_view(other));
    EXPECT_FALSE(is_estimate_file(folder / "other.json")) << other;
  }
  EXPECT_FALSE(is_estimate_file(folder / "absent.json"));
}

TEST(EstimateReport, ComesBackFromFigures) {
  const EstimateReport report = sample_report();
  std::vector<Metric> figures = {{"weight_sqnr_db", 40.0}};
  for (const Metric& figure : report.metrics()) {
    EXPECT_TRUE(is_estimate_metric(figure)) << figure.name;
    figures.push_back(figure);
  }
  const auto stored = stored_estimate(figures);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->soc_model, 52u);
  EXPECT_DOUBLE_EQ(stored->tokens_per_second, report.tokens_per_second());
  EXPECT_EQ(stored->bytes_per_token, report.bytes_per_token());
  ASSERT_EQ(stored->methods.size(), 4u);
  EXPECT_EQ(stored->methods[0].name, "decode");
  EXPECT_EQ(stored->methods[0].uncosted_ops, 3u);
  Estimate decode = report.methods[0].total;
  decode.uncosted_ops.clear();
  EXPECT_EQ(stored->methods[0].estimate, decode);
  EXPECT_EQ(stored->methods[3].name, "head");
  ASSERT_EQ(stored->first_token_us.size(), 3u);
  EXPECT_EQ(stored->first_token_us[1].first, 512);
  EXPECT_DOUBLE_EQ(stored->first_token_us[1].second, report.first_token_us(512));
}

TEST(EstimateReport, FiguresThatNobodyWroteArePassedOver) {
  EXPECT_FALSE(stored_estimate({}).has_value());
  EXPECT_FALSE(stored_estimate(std::vector<Metric>{{"weight_sqnr_db", 1.0}, {"estimate.soc_model", 52.0}}).has_value());
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto stored = stored_estimate(std::vector<Metric>{{"estimate.", 1.0},
                                                          {"estimate..us", 2.0},
                                                          {"estimate.decode.us", 1e300},
                                                          {"estimate.decode.us_lower", -5.0},
                                                          {"estimate.decode.us_upper", nan},
                                                          {"estimate.decode.fill_bytes", infinity},
                                                          {"estimate.decode.something", 5.0},
                                                          {"estimate.soc_model", 1e15},
                                                          {"estimate.tokens_per_second", nan},
                                                          {"estimate.bytes_per_token", -1.0},
                                                          {"estimate.first_token_us.", 5.0},
                                                          {"estimate.first_token_us.-7", 5.0},
                                                          {"estimate.first_token_us.99999999999999999999", 5.0},
                                                          {"estimate.first_token_us.7x", 5.0},
                                                          {"estimate.first_token_us.8", infinity}});
  ASSERT_TRUE(stored.has_value());
  ASSERT_EQ(stored->methods.size(), 1u);
  EXPECT_EQ(stored->methods[0].estimate, Estimate{});
  EXPECT_TRUE(stored->first_token_us.empty());
  EXPECT_EQ(stored->tokens_per_second, 0.0);
  EXPECT_EQ(stored->bytes_per_token, 0u);
}

TEST(EstimateReport, AsASectionOfThePage) {
  const std::string html = estimate_html(sample_report("sm8750"));
  EXPECT_HAS(html, "a relative: sa8797");
  EXPECT_HAS(html, "layers.2-3");
  EXPECT_HAS(html, "2 RotaryEmbedding");
  EXPECT_HAS(html, "spills written");
  EXPECT_EQ(std::ranges::count(html, '\0'), 0);
}

TEST(SvgBars, DrawToScaleAndEscape) {
  const std::vector<std::string> parts = {"a<b", "c"};
  const std::vector<SvgBar> bars = {{"one", {1.0, 3.0}, "4", 0.0, 0.0}, {"t&wo", {2.0}, "2 of", 1.5, 2.5}};
  const std::string svg = svg_stacked_bars("title", parts, bars);
  EXPECT_HAS(svg, "width=\"137.5\"");  // 1 of 4, of 550 pixels.
  EXPECT_HAS(svg, "width=\"412.5\"");
  EXPECT_HAS(svg, "width=\"275.0\"");
  EXPECT_HAS(svg, "M296.2 56.0H433.8");
  EXPECT_HAS(svg, "a&lt;b");
  EXPECT_HAS(svg, "t&amp;wo");
  EXPECT_EQ(svg_stacked_bars("title", parts, {}), "");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(svg_stacked_bars("title", parts, std::vector<SvgBar>{{"x", {nan, -1.0}, "", nan, nan}}), "");
}

}  // namespace estimate_report_test
}  // namespace tandem
