// Phases side by side: on the CPU, and compiled for Qualcomm's emulator and run there.
#include "eval/phases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backends/qnn/api/library.h"
#include "base/json.h"
#include "base/try.h"
#include "eval/npu_file.h"

namespace tandem {
namespace phases_test {

using test::TempFolder;

std::filesystem::path write_ids(const TempFolder& folder, size_t count) {
  test::write_file(folder / "ids.json", dump_json(Json(test::some_tokens(count, 3))));
  return folder / "ids.json";
}

struct Measured {
  PhasesReport report;
  std::vector<std::string> stages;
};

Result<Measured> measure(const std::filesystem::path& model, const std::vector<Phase>& phases,
                         const DatasetOptions& dataset_options, const PhasesOptions& what = {},
                         const std::filesystem::path& checkpoint = test::golden_dir("qwen3"),
                         const std::string& libraries = {}) {
  TestedModelOptions options;
  options.engine.threads = 2;
  options.engine.backend["qnn-libs"] = libraries;
  options.checkpoint = checkpoint;
  TANDEM_ASSIGN(const PhaseModels models, open_phases(model, phases, options));
  TANDEM_ASSIGN(const Dataset dataset, read_dataset(dataset_options, *models.front(), smallest_context(models)));
  Measured measured;
  uint64_t last = 0;
  TANDEM_ASSIGN(measured.report, measure_phases(models, dataset, what, [&](const Progress& p) {
                  if (measured.stages.empty() || measured.stages.back() != p.stage) {
                    measured.stages.push_back(p.stage);
                    last = 0;
                  }
                  EXPECT_GE(p.done, last);
                  EXPECT_LE(p.done, p.total);
                  last = p.done;
                }));
  return measured;
}

// The definition, over all rows at once.
struct PlainKl {
  double mean = 0.0;
  double top1 = 0.0;
};
PlainKl plain_kl(const std::vector<float>& wanted, const std::vector<float>& got, size_t vocabulary) {
  PlainKl kl;
  const size_t rows = wanted.size() / vocabulary;
  for (size_t row = 0; row < rows; ++row) {
    const float* p = &wanted[row * vocabulary];
    const float* q = &got[row * vocabulary];
    double p_sum = 0.0, q_sum = 0.0, sum = 0.0;
    for (size_t i = 0; i < vocabulary; ++i) p_sum += std::exp(double{p[i]}), q_sum += std::exp(double{q[i]});
    for (size_t i = 0; i < vocabulary; ++i) {
      const double probability = std::exp(double{p[i]}) / p_sum;
      sum += probability * std::log(probability / (std::exp(double{q[i]}) / q_sum));
    }
    kl.mean += sum / static_cast<double>(rows);
    kl.top1 += (std::max_element(p, p + vocabulary) - p == std::max_element(q, q + vocabulary) - q) /
               static_cast<double>(rows);
  }
  return kl;
}

TEST(Phases, KlIsThatOfTheRowsOfBothModels) {
  const TempFolder folder;
  const auto file = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "w4", .prefill = {8}});
  const auto measured = measure(file, {Phase::kFloat, Phase::kQdq, Phase::kDevice},
                                {.ids = write_ids(folder, 40), .window = 40}, {.kl = true});
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  std::map<Phase, std::vector<float>> rows;
  const auto tokens = test::some_tokens(40, 3);
  for (const PhaseMetrics& metrics : measured->report.phases) {
    TestedModelOptions options;
    options.phase = metrics.phase;
    options.checkpoint = test::golden_dir("qwen3");
    const auto model = TestedModel::open(file, options);
    ASSERT_TRUE(model.ok()) << model.error().message;
    rows[metrics.phase] = test::score_rows(**model, std::span(tokens).first(39));
  }
  EXPECT_FALSE(measured->report.phases[0].kl.has_value());
  for (const size_t i : {1u, 2u}) {
    const PhaseMetrics& metrics = measured->report.phases[i];
    ASSERT_TRUE(metrics.kl.has_value());
    EXPECT_EQ(metrics.kl->rows(), 39);
    const PlainKl wanted = plain_kl(rows[Phase::kFloat], rows[metrics.phase], 288);
    EXPECT_NEAR(metrics.kl->mean(), wanted.mean, 1e-9);
    EXPECT_NEAR(metrics.kl->top1_agreement(), wanted.top1, 1e-9);
    EXPECT_GT(metrics.kl->percentile(0.99), metrics.kl->mean());
  }
  ASSERT_TRUE(measured->report.logits.has_value());  // Device against qdq, as without KL.
  EXPECT_FALSE(measure(file, {Phase::kDevice}, {.ids = folder / "ids.json"}, {.kl = true}).ok());
}

TEST(Phases, MeasuresEveryPhaseOfACpuFile) {
  const TempFolder folder;
  const auto file = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "w8", .prefill = {8}});
  const auto measured = measure(file, {Phase::kFloat, Phase::kQdq, Phase::kDevice},
                                {.ids = write_ids(folder, 60), .window = 25}, {.greedy = 5});
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  const PhasesReport& report = measured->report;
  ASSERT_EQ(report.phases.size(), 3u);
  EXPECT_EQ(report.sequences, 3u);
  for (const PhaseMetrics& metrics : report.phases) {
    EXPECT_EQ(metrics.perplexity.tokens(), 24 + 24 + 9);
    EXPECT_NEAR(*report.ratio_to_float(metrics), 1.0, 0.1);
  }
  EXPECT_EQ(*report.ratio_to_float(report.phases[0]), 1.0);
  EXPECT_NE(report.phases[0].perplexity.value(), report.phases[1].perplexity.value());
  ASSERT_TRUE(report.logits.has_value());
  EXPECT_GT(report.logits->db(), 25.0);
  EXPECT_EQ(report.logits->count, (24 + 24 + 9) * 288);
  EXPECT_EQ(report.greedy->steps, 5);
  EXPECT_EQ(measured->stages, (std::vector<std::string>{"perplexity", "greedy tokens"}));

  // Each phase alone gives the same.
  for (const PhaseMetrics& metrics : report.phases) {
    const auto alone = measure(file, {metrics.phase}, {.ids = folder / "ids.json", .window = 25});
    ASSERT_TRUE(alone.ok()) << alone.error().message;
    EXPECT_EQ(alone->report.phases[0].perplexity.value(), metrics.perplexity.value());
    EXPECT_FALSE(alone->report.logits.has_value());
  }
}

// Float and qdq of a folder; and questions to a model with a tokenizer.
TEST(Phases, MeasuresFloatAndQdqOfAFolder) {
  const DatasetOptions dataset{.conversations = test::demo_dir() / "eval.json", .limit = 1};
  const auto measured = measure(test::demo_dir(), {Phase::kFloat, Phase::kQdq}, dataset, {.answers = 2}, {});
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  ASSERT_EQ(measured->report.phases.size(), 2u);
  for (const PhaseMetrics& metrics : measured->report.phases) {
    EXPECT_LT(metrics.perplexity.value(), 2.0);
    ASSERT_TRUE(metrics.answers.has_value());
    EXPECT_EQ(metrics.answers->asked, 2);
  }
  EXPECT_FALSE(measured->report.logits.has_value());
  EXPECT_EQ(measured->stages, (std::vector<std::string>{"perplexity", "answers, float", "answers, qdq"}));
}

TEST(Phases, SelectsThePromptForGreedyTokens) {
  TestedModelOptions options;
  options.context = 64;
  const auto model = TestedModel::open(test::demo_dir(), options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto text_of = [&](const Dataset& dataset, const std::string& prompt) {
    const auto tokens = prompt_of(dataset, prompt, **model);
    EXPECT_TRUE(tokens.ok()) << tokens.error().message;
    return *(*model)->decode(*tokens);
  };
  Dataset chat;
  chat.conversations = {{{"user", "Tell me."}, {"assistant", "No."}, {"user", "Why?"}}};
  EXPECT_NE(text_of(chat, "").find("Tell me."), std::string::npos);
  EXPECT_EQ(text_of(chat, "").find("No."), std::string::npos);
  EXPECT_NE(text_of(chat, "Another.").find("Another."), std::string::npos);
  Dataset ids;
  ids.sequences = {test::some_tokens(100)};
  EXPECT_EQ(prompt_of(ids, "", **model)->size(), 32u);
}

TEST(Phases, RefusesWhatCannotBeMeasured) {
  const TempFolder folder;
  const auto file = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "w8", .prefill = {8}});
  const auto message = [&](const std::vector<Phase>& phases, const DatasetOptions& dataset,
                           const PhasesOptions& what = {}, const std::filesystem::path& model = {}) {
    const auto measured = measure(model.empty() ? file : model, phases, dataset, what, {});
    return measured.ok() ? "it worked" : measured.error().message;
  };
  const DatasetOptions ids{.ids = write_ids(folder, 60)};
  EXPECT_NE(message({Phase::kQdq, Phase::kQdq}, ids).find("qdq is there twice"), std::string::npos);
  EXPECT_NE(message({Phase::kFloat}, ids).find("`checkpoint`"), std::string::npos);
  EXPECT_NE(message({Phase::kQdq}, ids, {.greedy = 3}).find("`phases` qdq,device"), std::string::npos);
  EXPECT_NE(message({Phase::kDevice}, ids, {.layer_tokens = 3}).find("`phases` qdq,device"), std::string::npos);
  EXPECT_NE(message({Phase::kDevice}, {}).find("`ids`"), std::string::npos);
  EXPECT_NE(message({Phase::kDevice}, {.ids = folder / "ids.json", .window = 66}).find("`window` of 66"),
            std::string::npos);
  EXPECT_NE(message({Phase::kDevice}, ids, {}, test::golden_dir("qwen3")).find("tandem compile"), std::string::npos);
}

// ---- On Qualcomm's emulator ----

TEST(PhasesOnTheEmulator, AgreeClosely) {
  qnn::SearchOptions search;
  search.folders = {TANDEM_SOURCE_DIR "/build/qnn"};
  const auto library = qnn::Library::load(search);
  if (!library.ok()) GTEST_SKIP() << "not tested, because " << library.error().message;
  const TempFolder folder;
  CompileOptions options;
  options.target = "sm8750";
  options.prefill = {8};
  options.context = 64;
  options.backend["emulator"] = "true";
  options.backend["trace"] = "true";
  options.backend["qnn-worker"] = TANDEM_WORKER;
  options.backend["qnn-libs"] = (*library)->path();
  options.threads = 2;
  const auto compiled = compile(test::golden_dir("qwen3"), folder / "a.tdm", options);
  ASSERT_TRUE(compiled.ok()) << compiled.error().message;
  const auto measured = measure(folder / "a.tdm", {Phase::kFloat, Phase::kQdq, Phase::kDevice},
                                {.ids = write_ids(folder, 42), .window = 30}, {.greedy = 16, .layer_tokens = 20},
                                test::golden_dir("qwen3"), options.backend["qnn-libs"]);
  ASSERT_TRUE(measured.ok()) << measured.error().message;
  const PhasesReport& report = measured->report;
  for (const PhaseMetrics& metrics : report.phases) {
    EXPECT_EQ(metrics.perplexity.tokens(), 29 + 11);
    EXPECT_NEAR(*report.ratio_to_float(metrics), 1.0, 0.5);
  }
  const double ratio = report.find(Phase::kDevice)->perplexity.value() / report.find(Phase::kQdq)->perplexity.value();
  EXPECT_NEAR(ratio, 1.0, 0.01);
  EXPECT_GT(report.logits->db(), 40.0);
  EXPECT_LT(report.logits->db(), 100.0);  // Different arithmetic: equal results would mean that it did not run.
  EXPECT_EQ(report.greedy->steps, 16);
  for (const Divergence& divergence : report.greedy->divergences)
    EXPECT_LT(divergence.gap, 2.0 * divergence.largest_noise);
  ASSERT_EQ(report.layers.size(), 2u);
  for (const LayerSqnr& layer : report.layers) {
    EXPECT_EQ(layer.hidden->count, 20 * 64);
    EXPECT_GT(layer.hidden->db(), 40.0);
    EXPECT_GT(layer.keys.db(), 30.0);
    EXPECT_GT(layer.values.db(), 30.0);
  }
}

}  // namespace phases_test
}  // namespace tandem
