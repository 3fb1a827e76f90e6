// Where calibration samples come from, how many there are, and that sampled ones are kept for the next run.
#include "compiler/calibration/calibration_input.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/hash.h"
#include "support/compiled_model.h"

namespace tandem::calibration_input_test {

struct Source {
  CompileOptions options;
  test::TempFolder folder;
  ThreadPool pool{2};
  std::unique_ptr<CompileJob> job;

  explicit Source(CalibrationOptions calibration, const std::filesystem::path& checkpoint = test::demo_dir()) {
    options.calibration = std::move(calibration);
    options.activations = ActivationFormat::kAuto;
    options.recipe = *recipe_preset("w8");
    options.context = 64;
    auto opened = CompileJob::open(checkpoint, folder / "x.tdm", options);
    EXPECT_TRUE(opened.ok()) << opened.error().message;
    if (opened.ok()) job = *std::move(opened);
  }
  Result<CalibrationData> read(const CalibrationNeeds& needs = {}) {
    return read_calibration_samples(*job, pool, needs);
  }
  CalibrationData must_read(const CalibrationNeeds& needs = {}) {
    auto data = read(needs);
    EXPECT_TRUE(data.ok()) << data.error().message;
    return data.ok() ? *std::move(data) : CalibrationData();
  }
};

std::filesystem::path write(const test::TempFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name, std::ios::binary) << text;
  return folder / name;
}

std::vector<int32_t> joined(const TokenSamples& samples) {
  std::vector<int32_t> tokens;
  for (const auto& sample : samples) tokens.insert(tokens.end(), sample.begin(), sample.end());
  return tokens;
}

TEST(CalibrationInput, ConversationsFillWholeSamplesInTheTemplatesForm) {
  test::TempFolder folder;
  std::string json = R"({"conversations": [)";
  for (int i = 0; i < 30; ++i) {
    json += std::string(i == 0 ? "" : ",") + R"([{"role": "user", "content": "Who has the boat?"},
             {"role": "assistant", "content": "Anna has it."}])";
  }
  const auto file = write(folder, "talk.json", json + "]}");
  Source source({.file = file, .samples = 3, .length = 40});
  const CalibrationData data = source.must_read();
  ASSERT_EQ(data.samples.size(), 3u);
  for (const auto& sample : data.samples) EXPECT_EQ(sample.size(), 40u);
  EXPECT_EQ(data.tokens, 120);
  EXPECT_EQ(data.source, "talk.json");
  EXPECT_EQ(data.describe(), "120 tokens in 3 samples of talk.json");
  EXPECT_EQ(data.file_hash, hash_bytes(test::read_file(file)));
  // One conversation follows the other.
  auto whole = source.job->tokenizer()->decode(joined(data.samples), true);
  size_t answers = 0;
  for (size_t at = 0; (at = whole.find("Anna has it.", at)) != std::string::npos; ++at) ++answers;
  EXPECT_GT(answers, 2u);
}

TEST(CalibrationInput, ATaskIsReadAsEvaluationReadsIt) {
  test::TempFolder folder;
  std::string lines;
  for (int i = 0; i < 20; ++i) {
    lines += R"({"goal": "open the door )" + std::to_string(i) +
             R"(", "sol1": "turn the key", "sol2": "eat the key", "label": 0})" + "\n";
  }
  Source source({.file = write(folder, "piqa.jsonl", lines), .task = "piqa", .samples = 2, .length = 50});
  const CalibrationData data = source.must_read();
  EXPECT_EQ(data.samples.size(), 2u);
  EXPECT_EQ(data.describe(), "100 tokens in 2 samples of piqa.jsonl (piqa)");
  const std::string text = source.job->tokenizer()->decode(joined(data.samples), true);
  EXPECT_NE(text.find("turn the key"), std::string::npos) << text;
  EXPECT_EQ(text.find("eat the key"), std::string::npos) << "the wrong answer: " << text;
}

TEST(CalibrationInput, LargeModelsGetFewerTokens) {
  ModelPlan plan;
  plan.parameters = 14'000'000;
  EXPECT_EQ(affordable_tokens(plan), 40960);
  plan.parameters = 600'000'000;
  EXPECT_EQ(affordable_tokens(plan), 5000);
  plan.parameters = 4'000'000'000;
  EXPECT_EQ(affordable_tokens(plan), 2048);
  plan.parameters = 0;
  EXPECT_EQ(affordable_tokens(plan), 40960);
}

TEST(CalibrationInput, AskedForTokensAreSampled) {
  Source usual({}, test::golden_dir("qwen3"));  // Without a tokenizer.
  const CalibrationData data = usual.must_read({.tokens = 1000});
  EXPECT_TRUE(data.is_sampled());
  EXPECT_EQ(data.samples.size(), 16u) << "of 64 tokens, the context";
  EXPECT_EQ(data.tokens, 1024);
  EXPECT_EQ(data.describe(), "1024 tokens in 16 samples, sampled from the model");
  Source chosen({.samples = 3, .length = 10}, test::golden_dir("qwen3"));
  EXPECT_EQ(chosen.must_read({.tokens = 1000}).tokens, 30) << "what the user chose";
}

TEST(CalibrationInput, SampledTextIsKeptForTheNextRun) {
  Source source({.samples = 4, .length = 12}, test::golden_dir("gemma3"));
  int steps = 0;
  source.options.progress = [&](const Progress& progress) { steps += progress.stage == "sampling" ? 1 : 0; };
  TokenSamples first;
  {
    auto work = source.job->open_work_folder("key");
    ASSERT_TRUE(work.ok());
    first = source.must_read({.work = &*work, .source = 7}).samples;
    EXPECT_EQ(steps, 12);
  }
  auto work = source.job->open_work_folder("key");
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(source.must_read({.work = &*work, .source = 7}).samples, first);
  EXPECT_EQ(steps, 12) << "nothing was sampled again";
  EXPECT_EQ(source.must_read({.work = &*work, .source = 8}).samples, first);
  EXPECT_EQ(steps, 24) << "of a checkpoint that changed";
  work->remove();
}

TEST(CalibrationInput, TooFewTokensAreWarnedAbout) {
  Source source({.prompt = "A boat.", .samples = 1, .length = 8});
  const CalibrationData data = source.must_read();
  const auto warning = warning_about_few_tokens(data, source.job->plan());
  ASSERT_TRUE(warning.has_value());
  EXPECT_NE(warning->find("fewer than the"), std::string::npos);
  CalibrationData many = data;
  many.tokens = 1 << 20;
  EXPECT_FALSE(warning_about_few_tokens(many, source.job->plan()).has_value());
}

TEST(CalibrationInput, ContradictionsAreRefused) {
  const Recipe recipe = *recipe_preset("w8");
  const auto refusal = [&](const CalibrationOptions& options) {
    const Status status = check_calibration(options, recipe, true);
    return status.ok() ? std::string() : status.error().message;
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_NE(refusal({.file = "a.txt", .prompt = "b"}).find("`calibration.prompt`"), std::string::npos);
  EXPECT_NE(refusal({.task = "piqa"}).find("`calibration.file`"), std::string::npos);
  EXPECT_NE(refusal({.file = "a.txt", .task = "chess"}).find("chess"), std::string::npos);
  EXPECT_NE(refusal({.file = "a.txt", .import_encodings = "e.json"}).find("leave `calibration.file` out"),
            std::string::npos);
}

}  // namespace tandem::calibration_input_test
