// Files of transformed weights: with unrounded numbers they compute what Hugging Face's code does.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "support/compiled_model.h"
#include "support/npy.h"

namespace tandem {
namespace transforms_test {

constexpr const char* kExact =
    R"({"base": "fp32", "fold_norms": true, "rotate": ["r1", "r2"], "equalize": ["keys", "values", "mlp"]})";

// One family each with a tied LM head, with biases, with norms of queries and keys, with LayerNorms.
TEST(TransformedFile, LogitsEqualHuggingFace) {
  for (const char* family : {"llama3_2", "qwen2_5", "qwen3", "gemma", "codegen"}) {
    const auto file = test::compiled({.checkpoint = test::golden_dir(family), .recipe = kExact});
    const auto expected = test::read_npy(test::golden_dir(family) / "logits_40.npy").values;
    const auto got = test::score_file(file, test::golden_prompt(family));
    EXPECT_LE(test::worst_difference(got, expected), 1e-4 * test::standard_deviation(expected)) << family;
  }
}

TEST(TransformedFile, SaysWhatWasAppliedAndWhatWasNot) {
  const test::TempFolder folder;
  const auto report = compile(test::golden_dir("gemma2"), folder / "a.tdm", test::to_options({.recipe = kExact}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(std::ranges::any_of(report->warnings,
                                  [](const std::string& warning) { return warning.find("r1") != std::string::npos; }));
  const auto artifact = Artifact::open(folder / "a.tdm");
  ASSERT_TRUE(artifact.ok());
  const auto recipe = Recipe::from_json(artifact->header().recipe);
  ASSERT_TRUE(recipe.ok());
  EXPECT_FALSE(recipe->transforms.rotate_residual);
  EXPECT_TRUE(recipe->transforms.rotate_values);
  EXPECT_TRUE(recipe->transforms.equalize_keys);
  // A preset means what the model allows, so that there is nothing to tell.
  const auto preset = compile(test::golden_dir("codegen"), folder / "b.tdm", test::to_options({.recipe = "w4"}));
  ASSERT_TRUE(preset.ok()) << preset.error().message;
  for (const std::string& warning : preset->warnings) EXPECT_EQ(warning.find("recipe"), std::string::npos) << warning;
}

TEST(TransformedFile, ARotatedModelHasAnLmHeadOfItsOwn) {
  const auto names = [](const std::string& recipe) {
    const auto artifact =
        Artifact::open(test::compiled({.checkpoint = test::golden_dir("llama3_2"), .recipe = recipe}));
    std::vector<std::string> found;
    for (const WeightEntry& weight : artifact->header().weights) found.push_back(weight.name);
    return found;
  };
  EXPECT_FALSE(std::ranges::count(names("w4"), "head"));
  EXPECT_TRUE(std::ranges::count(names(R"({"base": "w4", "equalize": [], "rotate": ["r1"]})"), "head"));
}

}  // namespace transforms_test
}  // namespace tandem
