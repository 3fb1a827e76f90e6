// Tasks against lm-eval: tests/data/tasks/expected.json has its figures for the demo model (make_expected.py there).
#include "eval/task_metrics.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/mapped_file.h"
#include "support/compiled_model.h"

namespace tandem {
namespace task_metrics_test {

namespace fs = std::filesystem;
using test::TempFolder;

const fs::path kFolder = TANDEM_SOURCE_DIR "/tests/data/tasks";

Json read_json(const fs::path& path) {
  const auto text = read_text_file(path, 1 << 24);
  EXPECT_TRUE(text.ok()) << text.error().message;
  return parse_json(*text, path.string()).value();
}

// The demo model with a tokenizer that begins each text with a token; what bos_model.py makes for lm-eval.
fs::path make_bos_model(const fs::path& folder) {
  fs::create_directory(folder);
  for (const char* name : {"config.json", "generation_config.json", "model.safetensors"}) {
    fs::create_symlink(test::demo_dir() / name, folder / name);
  }
  const std::string bos = "<|endoftext|>";
  Json tokenizer = read_json(test::demo_dir() / "tokenizer.json");
  const Json begin = {{"SpecialToken", {{"id", bos}, {"type_id", 0}}}};
  const Json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Json second = {{"Sequence", {{"id", "B"}, {"type_id", 1}}}};
  tokenizer["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", Json::array({begin, text})},
      {"pair", Json::array({begin, text, second})},
      {"special_tokens", {{bos, {{"id", bos}, {"ids", Json::array({0})}, {"tokens", Json::array({bos})}}}}}};
  test::write_file(folder / "tokenizer.json", dump_json(tokenizer));
  Json config = read_json(test::demo_dir() / "tokenizer_config.json");
  config["bos_token"] = bos;
  test::write_file(folder / "tokenizer_config.json", dump_json(config));
  return folder;
}

std::unique_ptr<TestedModel> open(const fs::path& path, int64_t context, std::optional<Phase> phase = {}) {
  TestedModelOptions options;
  options.engine.threads = 2;
  options.context = context;
  options.phase = phase;
  auto model = TestedModel::open(path, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return model.ok() ? std::move(*model) : nullptr;
}

// A model on the task of a figure, against lm-eval's. Returns how many numbers were compared.
size_t compare(TestedModel& model, const Json& figure) {
  SCOPED_TRACE(figure.dump());
  const auto task = read_task(figure["task"].get<std::string>(), kFolder / figure["file"].get<std::string>(), 0);
  EXPECT_TRUE(task.ok()) << task.error().message;
  uint64_t done = 0, total = 0;
  const auto metrics = measure_task(model, *task, figure["window"].get<int64_t>(), [&](const Progress& p) {
    done = p.done;
    total = p.total;
  });
  EXPECT_TRUE(metrics.ok()) << metrics.error().message;
  if (!metrics.ok()) return 0;
  EXPECT_EQ(done, total);
  EXPECT_EQ(total, task->items.size() + task->documents.size());
  size_t compared = 0;
  const auto expect_near = [&](const char* key, double value) {
    const double wanted = figure[key].get<double>();
    EXPECT_NEAR(value, wanted, 1e-4 * std::abs(wanted)) << key;
    ++compared;
  };
  if (figure.contains("bits_per_byte")) {
    expect_near("bits_per_byte", metrics->text.bits_per_byte(metrics->nats));
    expect_near("byte_perplexity", metrics->text.byte_perplexity(metrics->nats));
    expect_near("word_perplexity", metrics->text.word_perplexity(metrics->nats));
    return compared;
  }
  EXPECT_EQ(metrics->accuracy(metrics->right), figure["acc"].get<double>());
  expect_near("acc_stderr", metrics->accuracy_error(metrics->right));
  expect_near("log_likelihood", metrics->log_likelihood);
  EXPECT_EQ(task->has_acc_norm, figure.contains("acc_norm"));
  if (task->has_acc_norm) {
    EXPECT_EQ(metrics->accuracy(metrics->right_norm), figure["acc_norm"].get<double>());
  }
  return compared;
}

// Compiled without quantization: that is quicker than the reference.
TEST(TaskMetrics, AreThoseOfLmEval) {
  const TempFolder folder;
  const Json expected = read_json(kFolder / "expected.json");
  std::map<std::string, std::unique_ptr<TestedModel>> models;
  size_t compared = 0;
  for (const Json& figure : expected["figures"]) {
    const auto name = figure["model"].get<std::string>();
    auto& model = models[name];
    if (!model) {
      const auto checkpoint = name == "bos" ? make_bos_model(folder / "bos") : test::demo_dir();
      const auto context = figure["window"].get<int64_t>();
      model =
          open(test::compiled({.checkpoint = checkpoint, .recipe = "fp32", .prefill = {8, 24}, .context = context}), 0);
    }
    ASSERT_TRUE(model);
    compared += compare(*model, figure);
  }
  EXPECT_EQ(compared, 5u * 3 + 10 * 2);
}

TEST(TaskMetrics, OfTheFloatPhaseAreThoseOfLmEval) {
  const TempFolder folder;
  const auto model = open(make_bos_model(folder / "bos"), 28);
  ASSERT_TRUE(model);
  size_t compared = 0;
  const Json expected = read_json(kFolder / "expected.json");
  for (const Json& figure : expected["figures"]) {
    const bool is_quick = figure["task"] == "text" || figure["task"] == "piqa";
    if (figure["model"] == "bos" && is_quick) compared += compare(*model, figure);
  }
  EXPECT_EQ(compared, 5u);
}

TEST(TaskMetrics, SayWhichItemDoesNotFit) {
  const auto model = open(test::demo_dir(), 16);
  ASSERT_TRUE(model);
  const std::string line = R"({"goal":"G","sol1":"a","sol2":"b","label":0})";
  const std::string longer =
      R"({"goal":"G","sol1":"a","sol2":"one two three four five six seven eight nine ten eleven twelve, thirteen","label":0})";
  const auto task = parse_task("piqa", line + "\n" + longer, "x.jsonl", 0);
  ASSERT_TRUE(task.ok());
  const auto metrics = measure_task(*model, *task, 16, {});
  ASSERT_FALSE(metrics.ok());
  EXPECT_NE(metrics.error().message.find("item 2 of x.jsonl"), std::string::npos) << metrics.error().message;
  EXPECT_FALSE(measure_task(*model, *task, 17, {}).ok());
}

}  // namespace task_metrics_test
}  // namespace tandem
