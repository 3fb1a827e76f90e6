// Layers whose input needs 16 bits are found, the others stay at int8, and the file computes the right results.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "compiler/calibration/choose_activations.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
#include "support/same_program.h"
#include "support/score_rows.h"

namespace tandem {
namespace activations_test {

using test::TempFolder;

// Without equalization, which leaves none of the outliers below.
constexpr const char* kAuto =
    R"({"base": "w8", "kv": "fp32", "activations": "auto", "fold_norms": false, "equalize": []})";

// A copy of Llama 2's golden checkpoint that computes the same, but two input channels of gate and up of layer 1 are
// 256 times as large and their weight columns 256 times smaller.
std::filesystem::path with_outliers(const TempFolder& folder) {
  constexpr float kFactor = 256.0f;
  const auto copy = folder / "outliers";
  test::copy_checkpoint(test::golden_dir("llama2"), copy);
  const std::string layer = "model.layers.1.";
  auto norm = test::read_tensor(copy, layer + "post_attention_layernorm.weight");
  EXPECT_FALSE(norm.empty());
  for (const size_t channel : {3u, 17u}) norm[channel] *= kFactor;
  EXPECT_TRUE(test::overwrite_tensor(copy, layer + "post_attention_layernorm.weight", norm));
  for (const char* reader : {"mlp.gate_proj.weight", "mlp.up_proj.weight"}) {
    auto matrix = test::read_tensor(copy, layer + reader);
    for (size_t row = 0; row < matrix.size(); row += norm.size()) {
      for (const size_t channel : {3u, 17u}) matrix[row + channel] /= kFactor;
    }
    EXPECT_TRUE(test::overwrite_tensor(copy, layer + reader, matrix));
  }
  return copy;
}

// The weights of layers that round their input to 16 bits.
std::vector<std::string> int16_layers(const std::filesystem::path& file) {
  const auto artifact = Artifact::open(file);
  EXPECT_TRUE(artifact.ok()) << artifact.error().message;
  std::vector<std::string> names;
  for (const ir::Op& op : artifact->header().methods[0].ops) {
    if (op.attributes.int16_input) names.push_back(artifact->header().methods[0].at(op.inputs[1]).name);
  }
  return names;
}

std::vector<float> float_logits(const std::filesystem::path& checkpoint, std::span<const int32_t> tokens) {
  TestedModelOptions options;
  options.phase = Phase::kFloat;
  options.context = 64;
  const auto model = TestedModel::open(checkpoint, options);
  EXPECT_TRUE(model.ok());
  return test::score_rows(**model, tokens);
}

TEST(Activations, OnlyLayersThatNeed16BitsGetThem) {
  const TempFolder folder;
  const auto outliers = with_outliers(folder);
  const CompileOptions options = test::to_options({.recipe = kAuto});
  const auto report = compile(outliers, folder / "auto.tdm", options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(int16_layers(folder / "auto.tdm"), (std::vector<std::string>{"layers.1.mlp.gate", "layers.1.mlp.up"}));
  EXPECT_EQ(report->int16_layers, 2);
  EXPECT_EQ(report->rounding_layers, 2 * 7 + 1);
  EXPECT_TRUE(int16_layers(test::compiled({.checkpoint = test::golden_dir("llama2"), .recipe = kAuto})).empty());

  // The recipe in the file names these layers, and compiles to the same file.
  const std::string resolved = Artifact::open(folder / "auto.tdm")->header().recipe;
  const auto again = compile(outliers, folder / "again.tdm", test::to_options({.recipe = resolved}));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_TRUE(test::same_but_for_calibration(folder / "auto.tdm", folder / "again.tdm"));

  // It improves the results.
  const auto tokens = test::golden_prompt("llama2");
  const auto exact = float_logits(outliers, tokens);
  const auto int8 = test::compiled({.checkpoint = outliers, .recipe = R"({"weights": "int8", "kv": "fp32"})"});
  const double with_int8 = test::sqnr_db(exact, test::score_file(int8, tokens));
  const double with_auto = test::sqnr_db(exact, test::score_file(folder / "auto.tdm", tokens));
  EXPECT_GE(with_auto, with_int8 + 6.0);
  RecordProperty("int8", std::to_string(with_int8));
  RecordProperty("auto", std::to_string(with_auto));
}

TEST(Activations, EqualizationLeavesNoOutliers) {
  const TempFolder folder;
  const auto outliers = with_outliers(folder);
  const auto file =
      test::compiled({.checkpoint = outliers, .recipe = R"({"base": "w8", "kv": "fp32", "activations": "auto"})"});
  EXPECT_TRUE(int16_layers(file).empty());
}

TEST(Activations, TheChoiceDoesNotDependOnThreads) {
  const TempFolder folder;
  const auto outliers = with_outliers(folder);
  CompileOptions options = test::to_options({.recipe = kAuto});
  for (const int threads : {1, 3}) {
    options.threads = threads;
    ASSERT_TRUE(compile(outliers, folder / (std::to_string(threads) + ".tdm"), options).ok());
  }
  EXPECT_TRUE(test::read_file(folder / "1.tdm") == test::read_file(folder / "3.tdm"));
}

TEST(Activations, RulesMayLeaveSomeLayersOpenAndSettleOthers) {
  const TempFolder folder;
  const auto outliers = with_outliers(folder);
  const std::string recipe = R"({"weights": "int8", "rules": [{"match": "layers.*.mlp.*", "activations": "auto"},
    {"match": "layers.1.mlp.up", "activations": "int8"}, {"match": "head", "activations": "int16"}]})";
  ASSERT_TRUE(compile(outliers, folder / "a.tdm", test::to_options({.recipe = recipe})).ok());
  EXPECT_EQ(int16_layers(folder / "a.tdm"), (std::vector<std::string>{"layers.1.mlp.gate", "head"}));
  // Layers with float weights have no choice.
  ASSERT_TRUE(
      compile(outliers, folder / "b.tdm", test::to_options({.recipe = R"({"base": "fp16", "activations": "auto"})"}))
          .ok());
  EXPECT_TRUE(int16_layers(folder / "b.tdm").empty());
}

TEST(Activations, AModelThatIsBrokenIsNamed) {
  const TempFolder folder;
  const auto copy = folder / "broken";
  test::copy_checkpoint(test::golden_dir("llama2"), copy);
  auto norm = test::read_tensor(copy, "model.layers.0.input_layernorm.weight");
  norm[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(test::overwrite_tensor(copy, "model.layers.0.input_layernorm.weight", norm));
  const auto report = compile(copy, folder / "x.tdm", test::to_options({.recipe = kAuto}));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCorrupt) << report.error().message;
  EXPECT_NE(report.error().message.find("layers.0.attention.norm"), std::string::npos) << report.error().message;
}

TEST(Activations, StoppingEndsIt) {
  const TempFolder folder;
  CompileOptions options = test::to_options({.recipe = kAuto});
  bool looked = false;
  options.progress = [&](const Progress& progress) { looked = looked || progress.stage == "looking at activations"; };
  options.stop = [&] { return looked; };
  const auto report = compile(test::golden_dir("llama2"), folder / "x.tdm", options);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace activations_test
}  // namespace tandem
