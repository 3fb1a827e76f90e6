// Tuning as users get it: files compiled with `tune` and `bits`.
#include "compiler/tuning/tune_job.h"

#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "base/json.h"
#include "chat/conversations.h"
#include "numerics/divergence.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
#include "support/reference_logits.h"

namespace tandem {
namespace tune_job_test {

namespace fs = std::filesystem;
using test::TempFolder;

CompileOptions tuned_options(int64_t samples, int64_t length, Tune tune = Tune::kFast) {
  CompileOptions options = test::to_options({.context = 256});
  options.tune = tune;
  options.calibration.samples = samples;
  options.calibration.length = length;
  return options;
}

double mean_kl(const std::vector<float>& wanted, const std::vector<float>& got, size_t vocabulary) {
  double sum = 0.0;
  const size_t rows = wanted.size() / vocabulary;
  for (size_t row = 0; row < rows; ++row) {
    const auto p = std::span(wanted).subspan(row * vocabulary, vocabulary);
    const auto q = std::span(got).subspan(row * vocabulary, vocabulary);
    sum += kl_divergence(p, log_sum_exp(p), q, log_sum_exp(q));
  }
  return sum / static_cast<double>(rows);
}

class TuneDemo : public testing::Test {
 protected:
  CompileReport compile_to(const std::string& name, const CompileOptions& options) {
    auto report = compile(test::demo_dir(), folder_ / name, options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return report.ok() ? *std::move(report) : CompileReport{};
  }
  std::vector<uint8_t> bytes(const std::string& name) const { return test::read_file(folder_ / name); }

  const TempFolder folder_;
};

// On conversations that it was not calibrated with.
TEST_F(TuneDemo, IsNearerToTheFloatModel) {
  compile_to("none.tdm", test::to_options({.context = 256}));
  const CompileReport report = compile_to("fast.tdm", tuned_options(16, 256));
  ASSERT_EQ(report.tuned.size(), 42u);
  for (const TunedWeight& weight : report.tuned) EXPECT_GT(weight.after_db, weight.before_db) << weight.name;
  EXPECT_NE(report.calibration.find("sampled from the model"), std::string::npos) << report.calibration;

  const auto engine = test::load_engine(folder_ / "fast.tdm");
  const auto conversations = read_conversations(test::demo_dir() / "eval.json");
  const auto checkpoint = Checkpoint::open(test::demo_dir(), {});
  ASSERT_TRUE(conversations.ok() && checkpoint.ok());
  double none = 0.0, fast = 0.0;
  for (size_t i = 0; i < 3; ++i) {
    const auto text = engine->render_chat((*conversations)[i], false);
    ASSERT_TRUE(text.ok());
    const auto tokens = engine->encode(*text, false, true);
    ASSERT_TRUE(tokens.ok());
    const std::vector<float> wanted = test::reference_logits(*checkpoint, *tokens);
    const auto vocabulary = static_cast<size_t>(engine->vocab_size());
    none += mean_kl(wanted, test::score_file(folder_ / "none.tdm", *tokens), vocabulary);
    fast += mean_kl(wanted, test::score_file(folder_ / "fast.tdm", *tokens), vocabulary);
  }
  EXPECT_LT(fast, 0.8 * none);

  const auto artifact = Artifact::open(folder_ / "fast.tdm");
  ASSERT_TRUE(artifact.ok());
  const auto record = parse_json(artifact->header().calibration, "calibration");
  ASSERT_TRUE(record.ok());
  EXPECT_EQ((*record)["tune"], "fast");
  EXPECT_EQ((*record)["tokens"], 4096);
}

TEST_F(TuneDemo, ThreadsDoNotMatter) {
  CompileOptions options = tuned_options(4, 64);
  options.bits = 4.4;
  compile_to("two.tdm", options);
  options.threads = 1;
  compile_to("one.tdm", options);
  EXPECT_TRUE(bytes("two.tdm") == bytes("one.tdm"));
}

TEST_F(TuneDemo, ResumesAfterTheFinishedLayers) {
  CompileOptions options = tuned_options(4, 64);
  const CompileReport whole = compile_to("whole.tdm", options);
  bool stop = false;
  CompileOptions stopped = options;
  stopped.progress = [&](const Progress& p) { stop = stop || p.stage == "tuning layer 4"; };
  stopped.stop = [&] { return stop; };
  const auto report = compile(test::demo_dir(), folder_ / "model.tdm", stopped);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(fs::exists(folder_ / "model.tdm"));
  // Layers that are done are not tuned again, and no text is sampled.
  std::set<std::string> stages;
  options.progress = [&](const Progress& p) { stages.insert(p.stage); };
  const CompileReport resumed = compile_to("model.tdm", options);
  EXPECT_EQ(resumed.segments_reused, 4u);
  EXPECT_FALSE(stages.contains("tuning layer 3"));
  EXPECT_TRUE(stages.contains("tuning layer 4"));
  EXPECT_EQ(resumed.tuned.size(), whole.tuned.size());
  EXPECT_TRUE(bytes("model.tdm") == bytes("whole.tdm"));
  EXPECT_FALSE(fs::exists(folder_ / "model.tdm.work"));
}

// The recipe in the file says which formats were chosen: it gives the same ones without data.
TEST_F(TuneDemo, BitsAreWithinTheBudgetAndInTheRecipe) {
  CompileOptions options = tuned_options(4, 64, Tune::kNone);
  options.bits = 4.5;
  options.calibration.report = folder_ / "page.html";
  const CompileReport report = compile_to("bits.tdm", options);
  EXPECT_LE(report.bits, 4.5);
  EXPECT_GT(report.bits, 4.45);
  EXPECT_EQ(report.sensitivities.size(), 42u);
  const auto artifact = Artifact::open(folder_ / "bits.tdm");
  ASSERT_TRUE(artifact.ok());
  double bits = 0.0, count = 0.0;
  std::set<std::pair<WeightFormat, int>> formats;
  for (const WeightEntry& weight : artifact->header().weights) {
    if (!weight.name.starts_with("layers.")) continue;
    const auto numbers = static_cast<double>(weight.rows * weight.cols);
    bits += numbers * bits_per_weight({weight.format, weight.block});
    count += numbers;
    formats.insert({weight.format, weight.block});
  }
  EXPECT_NEAR(bits / count, report.bits, 1e-9);
  EXPECT_GE(formats.size(), 3u);
  auto recipe = Recipe::from_json(artifact->header().recipe);
  ASSERT_TRUE(recipe.ok()) << recipe.error().message;
  CompileOptions again = test::to_options({.context = 256});
  again.recipe = *recipe;
  compile_to("again.tdm", again);
  const auto second = Artifact::open(folder_ / "again.tdm");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->header().weights, artifact->header().weights);
  const auto page = test::read_file(folder_ / "page.html");
  const std::string html(page.begin(), page.end());
  EXPECT_NE(html.find("layers.5.mlp.down"), std::string::npos);
  EXPECT_NE(html.find("Bits per weight"), std::string::npos);
}

TEST_F(TuneDemo, RefusesBudgetsThatMakeNoSense) {
  const auto refused = [&](const CompileOptions& options) {
    const auto report = compile(test::demo_dir(), folder_ / "no.tdm", options);
    EXPECT_FALSE(report.ok());
    EXPECT_FALSE(fs::exists(folder_ / "no.tdm.work"));
    return report.ok() ? std::string() : report.error().message;
  };
  CompileOptions options = tuned_options(2, 16, Tune::kNone);
  options.bits = 4.05;
  EXPECT_NE(refused(options).find("give 4.125 to 8.000"), std::string::npos) << refused(options);
  options.bits = 4.5;
  options.recipe = *recipe_preset("w8");
  EXPECT_NE(refused(options).find("`bits`"), std::string::npos) << refused(options);
}

class TuneFamily : public testing::TestWithParam<const char*> {};

// Every family with every option; a prompt as a whole and token by token agree, as without tuning.
TEST_P(TuneFamily, CompilesAndRuns) {
  const TempFolder folder;
  CompileOptions options = tuned_options(3, 24);
  options.context = 64;
  options.bits = 4.5;
  const auto report = compile(test::golden_dir(GetParam()), folder / "model.tdm", options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->tuned.empty());
  const std::vector<int32_t> prompt = test::golden_prompt(GetParam());
  const std::vector<float> logits = test::score_file(folder / "model.tdm", prompt);
  const auto engine = test::load_engine(folder / "model.tdm");
  const auto session = test::new_session(*engine);
  std::vector<float> last;  // Of earlier rows, Phi's change with the length of the sequence.
  for (const int32_t token : prompt) last = test::score(*session, std::span(&token, 1));
  EXPECT_TRUE(std::ranges::equal(last, std::span(logits).last(last.size())));
}

INSTANTIATE_TEST_SUITE_P(Families, TuneFamily, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace tune_job_test
}  // namespace tandem
