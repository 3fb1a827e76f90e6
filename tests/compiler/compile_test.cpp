// What the compiler writes: the same bytes every time, and files that run for every mix of formats.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "eval/tested_model.h"
#include "ir/printer.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
#include "support/score_rows.h"

namespace tandem {
namespace compile_test {

using test::TempFolder;

CompileReport must_compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                           const CompileOptions& options) {
  auto report = compile(checkpoint, output, options);
  EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
  return report.ok() ? *std::move(report) : CompileReport{};
}

TEST(Compile, GivesTheSameBytesEveryTimeWithAnyNumberOfThreads) {
  const TempFolder folder;
  CompileOptions options = test::to_options({.recipe = "w4", .context = 128});
  must_compile(test::demo_dir(), folder / "a.tdm", options);
  must_compile(test::demo_dir(), folder / "b.tdm", options);
  const auto expected = test::read_file(folder / "a.tdm");
  ASSERT_FALSE(expected.empty());
  EXPECT_TRUE(expected == test::read_file(folder / "b.tdm"));
  for (const int threads : {1, 3}) {
    options.threads = threads;
    must_compile(test::demo_dir(), folder / "c.tdm", options);
    EXPECT_TRUE(expected == test::read_file(folder / "c.tdm")) << threads << " threads";
  }
  EXPECT_EQ(folder.entries(), 3u) << "something was left behind";
}

TEST(Compile, ReportsWhatItDid) {
  const TempFolder folder;
  const auto report = must_compile(test::demo_dir(), folder / "a.tdm", test::to_options({.recipe = "w4"}));
  EXPECT_EQ(report.file_size, std::filesystem::file_size(folder / "a.tdm"));
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode", "prefill_8", "prefill_32"}));
  EXPECT_EQ(report.context, 64);
  EXPECT_EQ(report.segments_reused, 0u);
  EXPECT_GT(report.sqnr_db, 20.0);
  EXPECT_LT(report.weight_bytes, report.file_size);
  EXPECT_TRUE(report.warnings.empty());
  const auto exact = must_compile(test::golden_dir("qwen3"), folder / "b.tdm", test::to_options({.recipe = "fp32"}));
  EXPECT_TRUE(std::isinf(exact.sqnr_db)) << "nothing is lost";
  ASSERT_EQ(exact.warnings.size(), 1u);
  EXPECT_NE(exact.warnings[0].find("tokenizer"), std::string::npos);
}

TEST(Compile, StoresWeightsOnceForAllMethods) {
  const auto one = test::compiled({.checkpoint = test::demo_dir(), .prefill = {}});
  const auto three = test::compiled({.checkpoint = test::demo_dir(), .prefill = {8, 32}});
  EXPECT_LT(std::filesystem::file_size(three), std::filesystem::file_size(one) + 100'000);
  const auto a = Artifact::open(one), b = Artifact::open(three);
  EXPECT_EQ(a->header().weights.size(), b->header().weights.size());
  EXPECT_EQ(b->header().methods.size(), 3u);
}

TEST(Compile, TellsItsProgress) {
  const TempFolder folder;
  CompileOptions options = test::to_options({.recipe = "w8"});
  uint64_t last = 0, total = 0;
  std::vector<std::string> stages;
  options.progress = [&](const Progress& p) {
    EXPECT_GE(p.done, last);
    EXPECT_LE(p.done, p.total);
    last = p.done;
    total = p.total;
    if (stages.empty() || stages.back() != p.stage) stages.push_back(p.stage);
  };
  must_compile(test::demo_dir(), folder / "a.tdm", options);
  EXPECT_GT(static_cast<double>(last), 0.98 * static_cast<double>(total));
  EXPECT_EQ(stages.front(), "embedding");
  EXPECT_EQ(stages.back(), "writing the file");
  EXPECT_EQ(std::ranges::count(stages, "layers.3"), 1);
}

TEST(Compile, OverwritesAnOldFile) {
  const TempFolder folder;
  must_compile(test::golden_dir("gemma2"), folder / "a.tdm", test::to_options({}));
  const auto old = test::read_file(folder / "a.tdm");
  must_compile(test::golden_dir("qwen3"), folder / "a.tdm", test::to_options({}));
  EXPECT_TRUE(looks_like_artifact(folder / "a.tdm"));
  EXPECT_FALSE(test::read_file(folder / "a.tdm") == old);
}

TEST(Compile, TakesADefaultContextAndShortensTheDefaultPrefills) {
  const TempFolder folder;
  CompileOptions options;
  options.recipe = *recipe_preset("w8");
  auto report = must_compile(test::golden_dir("qwen3"), folder / "a.tdm", options);
  EXPECT_EQ(report.context, 256) << "max_position_embeddings";
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode", "prefill_32", "prefill_128"}));
  options.context = 100;
  report = must_compile(test::golden_dir("qwen3"), folder / "a.tdm", options);
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode", "prefill_32"}));
  options.context = 1;
  report = must_compile(test::golden_dir("qwen3"), folder / "a.tdm", options);
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode"}));
  EXPECT_EQ(test::score_file(folder / "a.tdm", std::vector<int32_t>{5}).size(), 288u);
}

TEST(Compile, APrefillOfOneTokenIsWhatDecodeDoes) {
  const TempFolder folder;
  const auto report = must_compile(test::golden_dir("qwen3"), folder / "a.tdm",
                                   test::to_options({.recipe = "w8", .prefill = {1, 8, 8}}));
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode", "prefill_8"}));
}

// ---- Formats ----

const WeightEntry* weight(const Artifact& artifact, std::string_view name) {
  const WeightEntry* entry = artifact.find_weight(name);
  EXPECT_NE(entry, nullptr) << name;
  return entry;
}

std::vector<float> reference_logits(const std::filesystem::path& file, std::span<const int32_t> tokens) {
  auto model = TestedModel::open(
      file, {.phase = Phase::kQdq, .recipe = {}, .context = 0, .engine = {.threads = 2}, .config_name = "config.json"});
  EXPECT_TRUE(model.ok());
  return test::score_rows(**model, tokens);
}

// Few tokens: none of them has an int8 value on a rounding boundary (see runtime/quantized_test.cpp).
void expect_runs_like_its_reference(const std::filesystem::path& file, std::span<const int32_t> tokens) {
  EXPECT_GE(test::sqnr_db(reference_logits(file, tokens), test::score_file(file, tokens)), 25.0);
}

TEST(Formats, MayDifferFromLayerToLayer) {
  const std::string recipe = R"({"weights": {"format": "lpbq4", "block": 32}, "embedding": "fp16", "head": "int8",
    "rules": [{"match": "layers.0.attention.*", "format": "int8"},
              {"match": "layers.0.attention.k", "format": "lpbq4", "block": 16},
              {"match": "layers.0.attention.v", "format": "fp32"},
              {"match": "layers.1.mlp.up", "format": "bf16"},
              {"match": "layers.1.mlp.down", "format": "lpbq4", "block": 64},
              {"match": "layers.1.attention.o", "format": "fp16"}]})";
  for (const char* family : test::kGoldenFamilies) {
    SCOPED_TRACE(family);
    const auto file = test::compiled({.checkpoint = test::golden_dir(family), .recipe = recipe});
    const auto artifact = Artifact::open(file);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    EXPECT_EQ(weight(*artifact, "layers.0.attention.q")->format, WeightFormat::kI8);
    EXPECT_EQ(weight(*artifact, "layers.0.attention.k")->block, 16);
    EXPECT_EQ(weight(*artifact, "layers.0.attention.v")->format, WeightFormat::kF32);
    EXPECT_EQ(weight(*artifact, "layers.1.mlp.up")->format, WeightFormat::kBF16);
    EXPECT_EQ(weight(*artifact, "layers.1.mlp.down")->block, 64);
    EXPECT_EQ(weight(*artifact, "layers.0.mlp.up")->block, 32);
    EXPECT_EQ(weight(*artifact, "embedding")->format, WeightFormat::kF16);
    EXPECT_EQ(weight(*artifact, "head")->format, WeightFormat::kI8);
    expect_runs_like_its_reference(file, test::golden_prompt(family));
  }
}

// The demo has tied embeddings; llama2 does not.
TEST(Formats, AnUntiedModelHasTwoMatricesWithFormatsOfTheirOwn) {
  const auto file = test::compiled(
      {.checkpoint = test::golden_dir("llama2"), .recipe = R"({"base": "w4", "embedding": "int8", "head": "fp16"})"});
  const auto artifact = Artifact::open(file);
  ASSERT_TRUE(artifact.ok());
  EXPECT_EQ(weight(*artifact, "embedding")->format, WeightFormat::kI8);
  EXPECT_EQ(weight(*artifact, "head")->format, WeightFormat::kF16);
  expect_runs_like_its_reference(file, test::golden_prompt("llama2"));
  // With the same format for both, there are still two matrices.
  const auto same = Artifact::open(test::compiled({.checkpoint = test::golden_dir("llama2"), .recipe = "w8"}));
  EXPECT_NE(same->find_weight("head"), nullptr);
}

TEST(Formats, ATiedModelHasOneCopyPerFormat) {
  const auto shared = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "w4"});
  EXPECT_EQ(Artifact::open(shared)->find_weight("head"), nullptr);
  const auto file = test::compiled(
      {.checkpoint = test::golden_dir("qwen3"), .recipe = R"({"base": "w4", "embedding": "fp16", "head": "int8"})"});
  const auto artifact = Artifact::open(file);
  ASSERT_TRUE(artifact.ok());
  EXPECT_EQ(weight(*artifact, "embedding")->format, WeightFormat::kF16);
  EXPECT_EQ(weight(*artifact, "head")->format, WeightFormat::kI8);
  EXPECT_EQ(weight(*artifact, "head")->rows, weight(*artifact, "embedding")->rows);
  expect_runs_like_its_reference(file, test::golden_prompt("qwen3"));
  // Both from the same numbers: with fp32 for all, two copies compute what one does.
  const auto two = test::compiled({.checkpoint = test::golden_dir("qwen3"),
                                   .recipe = R"({"base": "fp32", "rules": [{"match": "head", "format": "bf16"}]})"});
  const auto one = test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = "fp32"});
  EXPECT_GE(test::sqnr_db(test::score_file(one, test::golden_prompt("qwen3")),
                          test::score_file(two, test::golden_prompt("qwen3"))),
            40.0);
}

TEST(Formats, TheRecipeIsInTheFile) {
  const std::string recipe = R"({"base": "w4", "kv": "u8", "rules": [{"match": "layers.0.*", "format": "int8"}]})";
  const auto artifact = Artifact::open(test::compiled({.checkpoint = test::golden_dir("qwen3"), .recipe = recipe}));
  ASSERT_TRUE(artifact.ok());
  const auto stored = Recipe::from_json(artifact->header().recipe);
  ASSERT_TRUE(stored.ok()) << stored.error().message;
  EXPECT_EQ(*stored, test::parse_recipe(recipe));
}

}  // namespace compile_test
}  // namespace tandem
