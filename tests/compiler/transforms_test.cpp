// Files of transformed weights: with unrounded numbers they compute what Hugging Face's code does.
#include <gtest/gtest.h>

#include <bit>

#include "artifact/reader.h"
#include "base/format.h"
#include "models/model_plan.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
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

double largest(const std::vector<float>& values) {
  double most = 0.0;
  for (const float v : values) most = std::max(most, std::abs(static_cast<double>(v)));
  return most;
}

size_t count_rotations(const std::filesystem::path& file) {
  const auto artifact = Artifact::open(file);
  EXPECT_TRUE(artifact.ok());
  return static_cast<size_t>(
      std::ranges::count(artifact->header().methods[0].ops, ir::OpKind::kHadamard, &ir::Op::kind));
}

std::filesystem::path reference_file(const std::string& family, const std::string& recipe,
                                     const test::TempFolder& folder) {
  CompileOptions options = test::to_options({.recipe = recipe});
  options.target = "reference";
  const auto report = compile(test::golden_dir(family), folder / (family + ".tdm"), options);
  EXPECT_TRUE(report.ok()) << report.error().message;
  return folder / (family + ".tdm");
}

class RotatedKeys : public testing::TestWithParam<const char*> {};

// Partial and interleaved rotary embeddings, none at all, norms of queries and keys, windows: 1e-5 of the largest logit
// is what float32 itself differs from Hugging Face's float64 logits by, and a little more.
TEST_P(RotatedKeys, FloatLogitsEqualHuggingFace) {
  const std::string family = GetParam();
  const test::TempFolder folder;
  const auto expected = test::read_npy(test::golden_dir(family) / "logits_40.npy").values;
  const auto prompt = test::golden_prompt(family);
  const std::string alone = R"({"base": "fp32", "rotate": ["r3"]})";
  const std::string with_others =
      R"({"base": "fp32", "rotate": ["r1", "r2", "r3"], "equalize": ["keys", "values", "mlp"]})";
  const auto checkpoint = Checkpoint::open(test::golden_dir(family), {"config.json"});
  const auto plan = plan_model(*checkpoint);
  ASSERT_TRUE(plan.ok());
  const size_t rotations = std::has_single_bit(static_cast<uint64_t>(plan->head_dim)) ? 2 * plan->layers.size() : 0;
  for (const std::string& recipe : {alone, with_others}) {
    const auto file = test::compiled({.checkpoint = test::golden_dir(family), .recipe = recipe});
    EXPECT_EQ(count_rotations(file), rotations);
    const auto reference = reference_file(family, recipe, folder);
    EXPECT_EQ(count_rotations(reference), rotations);
    EXPECT_LE(test::worst_difference(test::score_file(file, prompt), expected), 1e-5 * largest(expected));
    EXPECT_LE(test::worst_difference(test::score_file(reference, prompt), expected), 1e-5 * largest(expected));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, RotatedKeys, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(TransformedFile, HeadsOfNoPowerOfTwoAreNotRotated) {
  const test::TempFolder folder;
  const auto report = compile(test::golden_dir("gemma"), folder / "a.tdm",
                              test::to_options({.recipe = R"({"base": "w4", "rotate": ["r3", "r2"]})"}));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(std::ranges::any_of(report->warnings, [](const std::string& warning) {
    return warning.find("r3") != std::string::npos && warning.find("power of two") != std::string::npos;
  }));
  const auto artifact = Artifact::open(folder / "a.tdm");
  ASSERT_TRUE(artifact.ok());
  const auto recipe = Recipe::from_json(artifact->header().recipe);
  ASSERT_TRUE(recipe.ok());
  EXPECT_FALSE(recipe->transforms.rotate_keys);
  EXPECT_TRUE(recipe->transforms.rotate_values);
}

// Keys with a bias in one channel of each head, which a u8 row spends most of its 255 steps on. The family does not
// rotate that channel by position, so the bias adds the same to all scores of a query, and Hugging Face's logits stay.
TEST(TransformedFile, RotatedKeysLoseLessInAU8Cache) {
  const test::TempFolder folder;
  const auto checkpoint = folder / "biased";
  test::copy_checkpoint(test::golden_dir("glm4_0414"), checkpoint);
  const auto opened = Checkpoint::open(checkpoint, {"config.json"});
  const auto plan = plan_model(*opened);
  ASSERT_TRUE(plan.ok());
  const auto dim = static_cast<size_t>(plan->head_dim);
  for (size_t layer = 0; layer < plan->layers.size(); ++layer) {
    const std::string name = str_format("model.layers.{}.self_attn.k_proj.bias", layer);
    auto bias = test::read_tensor(checkpoint, name);
    ASSERT_FALSE(bias.empty());
    for (size_t i = dim - 1; i < bias.size(); i += dim) bias[i] += 100.0f;
    ASSERT_TRUE(test::overwrite_tensor(checkpoint, name, bias));
  }
  const auto expected = test::read_npy(test::golden_dir("glm4_0414") / "logits_40.npy").values;
  const auto sqnr = [&](const char* rotate, const char* kv) {
    const std::string recipe = str_format(R"({{"base": "fp32", "rotate": [{}]}})", rotate);
    const auto file = test::compiled({.checkpoint = checkpoint, .recipe = recipe, .kv = kv});
    return test::sqnr_db(expected, test::score_file(file, test::golden_prompt("glm4_0414")));
  };
  EXPECT_GE(sqnr(R"("r3")", "fp32"), 80.0);
  const double as_it_is = sqnr("", "u8"), rotated = sqnr(R"("r3")", "u8");
  std::printf("[ sqnr     ] %.1f dB, rotated %.1f dB\n", as_it_is, rotated);
  EXPECT_GE(rotated, as_it_is + 3.0);  // Half of the noise.
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
