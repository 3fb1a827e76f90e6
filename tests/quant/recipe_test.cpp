#include "quant/recipe.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/format.h"

namespace tandem {
namespace recipe_test {

constexpr WeightSpec kInt8{WeightFormat::kI8, 0};
constexpr WeightSpec kFp16{WeightFormat::kF16, 0};
constexpr WeightSpec kLpbq32{WeightFormat::kLpbq4, 32};

Recipe read(std::string_view json) {
  auto recipe = Recipe::from_json(json);
  EXPECT_TRUE(recipe.ok()) << recipe.error().message;
  return recipe.ok() ? *std::move(recipe) : Recipe();
}

// The error must contain all these words.
void expect_error(std::string_view json, std::initializer_list<std::string_view> words) {
  const auto recipe = Recipe::from_json(json);
  ASSERT_FALSE(recipe.ok()) << json;
  for (const std::string_view word : words) {
    EXPECT_NE(recipe.error().message.find(word), std::string::npos) << word << " is not in: " << recipe.error().message;
  }
}

TEST(Recipe, Presets) {
  for (const std::string_view name : recipe_presets()) {
    const auto recipe = Recipe::load(name);
    ASSERT_TRUE(recipe.ok());
    EXPECT_EQ(recipe->name, name);
    EXPECT_EQ(read(recipe->to_json()), *recipe);
    EXPECT_EQ(recipe->kv, name == "fp32" ? KvFormat::kFp32 : KvFormat::kFp16);
    EXPECT_EQ(recipe->mask, DType::kF32);
    EXPECT_EQ(recipe->logits, DType::kF32);
  }
  const Recipe w4 = *recipe_preset("w4");
  EXPECT_EQ(w4.spec_for("layers.3.mlp.up"), kLpbq32);
  EXPECT_EQ(w4.spec_for("embedding"), kInt8);
  EXPECT_EQ(w4.spec_for("head"), kInt8);
  for (const std::string_view weight : {"embedding", "head", "layers.0.attention.q"}) {
    EXPECT_EQ(recipe_preset("w8")->spec_for(weight), kInt8);
    EXPECT_EQ(recipe_preset("fp16")->spec_for(weight), kFp16);
    EXPECT_EQ(recipe_preset("bf16")->spec_for(weight).format, WeightFormat::kBF16);
    EXPECT_EQ(recipe_preset("fp32")->spec_for(weight).format, WeightFormat::kF32);
  }
}

TEST(Recipe, TransformsAreThoseOfThePresetOrNone) {
  const Transforms integers = {
      .fold_norms = true, .equalize_norms = true, .equalize_keys = true, .equalize_values = true, .equalize_mlp = true};
  for (const std::string_view name : recipe_presets()) {
    EXPECT_EQ(recipe_preset(name)->transforms, name == "w4" || name == "w8" ? integers : Transforms()) << name;
  }
  EXPECT_EQ(read(R"({"base": "w4"})").transforms, integers);
  // Recipes of files from before there were any.
  EXPECT_EQ(read(R"({"name": "w4", "weights": "lpbq4"})").transforms, Transforms());
  Recipe recipe = read(R"({"base": "w4", "fold_norms": false, "equalize": ["keys"], "rotate": ["r2", "r1"]})");
  EXPECT_EQ(recipe.transforms, (Transforms{.rotate_residual = true, .rotate_values = true, .equalize_keys = true}));
  EXPECT_EQ(read(R"({"base": "fp16", "rotate": ["r3"]})").transforms, (Transforms{.rotate_keys = true}));
  EXPECT_EQ(read(recipe.to_json()), recipe);
  EXPECT_EQ(read(R"({"base": "w4", "fold_norms": false, "equalize": []})").transforms, Transforms());
}

TEST(Recipe, WrongTransformsAreErrors) {
  expect_error(R"({"base": "w4", "rotate": ["r4"]})", {"r4", "r1, r2, r3"});
  expect_error(R"({"base": "w4", "rotate": "r1"})", {"rotate", "list"});
  expect_error(R"({"base": "w4", "rotate": ["r1", "r1"]})", {"r1", "twice"});
  expect_error(R"({"base": "w4", "equalize": ["key"]})", {"key", "did you mean", "keys"});
  expect_error(R"({"base": "w4", "equalize": [1]})", {"equalize", "string"});
  expect_error(R"({"base": "w4", "fold_norms": "yes"})", {"fold_norms", "true or false"});
}

TEST(Recipe, TheExampleOfTheDocumentation) {
  const Recipe recipe = read(R"({"name": "my-recipe", "weights": {"format": "lpbq4", "block": 16},
    "embedding": {"format": "int8"}, "head": {"format": "fp16"},
    "rules": [{"match": "layers.*.mlp.down", "format": "int8"}, {"match": "layers.[0-1].*", "format": "fp16"},
              {"match": "layers.{10..11}.attention.?", "format": "lpbq4"}],
    "activations": "int8", "kv": "u8", "mask": "u16", "logits": "f16"})");
  EXPECT_EQ(recipe.name, "my-recipe");
  EXPECT_EQ(recipe.spec_for("layers.5.attention.q"), (WeightSpec{WeightFormat::kLpbq4, 16}));
  EXPECT_EQ(recipe.spec_for("layers.5.mlp.down"), kInt8);
  EXPECT_EQ(recipe.spec_for("layers.1.mlp.down"), kFp16);  // The last rule that matches.
  EXPECT_EQ(recipe.spec_for("layers.12.mlp.down"), kInt8);
  EXPECT_EQ(recipe.spec_for("layers.10.attention.o"), kLpbq32);
  EXPECT_EQ(recipe.spec_for("layers.1.mlp.fc_in"), kFp16);
  EXPECT_EQ(recipe.spec_for("embedding"), kInt8);
  EXPECT_EQ(recipe.spec_for("head"), kFp16);
  EXPECT_EQ(recipe.kv, KvFormat::kU8);
  EXPECT_EQ(kv_dtype(recipe.kv), DType::kU8);
  EXPECT_EQ(recipe.mask, DType::kU16);
  EXPECT_EQ(recipe.logits, DType::kF16);
  EXPECT_EQ(read(recipe.to_json()), recipe);
}

TEST(Recipe, StartsFromAPreset) {
  const Recipe recipe = read(R"({"base": "w4", "head": "fp16", "kv": "fp32"})");
  EXPECT_EQ(recipe.weights, kLpbq32);
  EXPECT_EQ(recipe.embedding, kInt8);
  EXPECT_EQ(recipe.head, kFp16);
  EXPECT_EQ(recipe.kv, KvFormat::kFp32);
  EXPECT_EQ(read(R"({"base": "fp32"})").kv, KvFormat::kFp32);
  EXPECT_EQ(read(R"({"base": "fp32"})").name, "custom");
}

TEST(Recipe, WithoutABaseEmbeddingAndHeadFollowTheWeights) {
  EXPECT_EQ(read(R"({"weights": "fp16"})").embedding, kFp16);
  EXPECT_EQ(read(R"({"weights": {"format": "int8"}})").head, kInt8);
  EXPECT_EQ(read(R"({"weights": {"format": "lpbq4", "block": 64}})").head, kInt8);
  EXPECT_EQ(read(R"({"weights": "lpbq4", "embedding": "lpbq4"})").embedding, kLpbq32);
}

TEST(Recipe, RulesReachEmbeddingAndHead) {
  const Recipe recipe = read(R"({"base": "w4", "rules": [{"match": "*", "format": "fp16"}]})");
  EXPECT_EQ(recipe.spec_for("embedding"), kFp16);
  EXPECT_EQ(recipe.spec_for("head"), kFp16);
}

TEST(Recipe, ActivationsMayDifferFromLayerToLayer) {
  EXPECT_EQ(recipe_preset("w4")->activations_for("layers.0.mlp.down"), ActivationFormat::kInt8);
  const Recipe recipe = read(R"({"base": "w4", "activations": "auto", "rules": [
    {"match": "*.down", "activations": "int16"}, {"match": "layers.{0..1}.*", "format": "int8"},
    {"match": "layers.1.*", "format": "lpbq4", "block": 16, "activations": "int8"}]})");
  EXPECT_EQ(recipe.activations_for("layers.0.attention.q"), ActivationFormat::kAuto);
  EXPECT_EQ(recipe.activations_for("layers.0.mlp.down"), ActivationFormat::kInt16) << "a rule that says nothing of it";
  EXPECT_EQ(recipe.activations_for("layers.1.mlp.down"), ActivationFormat::kInt8);
  // Rules about activations alone leave the weights as they are.
  EXPECT_EQ(recipe.spec_for("layers.2.mlp.down"), kLpbq32);
  EXPECT_EQ(recipe.spec_for("layers.0.mlp.down"), kInt8);
  EXPECT_EQ(recipe.spec_for("layers.1.mlp.down"), (WeightSpec{WeightFormat::kLpbq4, 16}));
  EXPECT_EQ(read(recipe.to_json()), recipe);
  for (const ActivationFormat format : {ActivationFormat::kInt8, ActivationFormat::kInt16, ActivationFormat::kAuto}) {
    EXPECT_EQ(*parse_activation_format(activation_format_name(format)), format);
  }
  EXPECT_FALSE(parse_activation_format("int4").ok());
}

TEST(Recipe, SaysHowManyLogitsAreRescored) {
  EXPECT_EQ(recipe_preset("w4")->rescore, std::nullopt) << "left to the target";
  EXPECT_EQ(recipe_preset("w4")->to_json().find("rescore"), std::string::npos);
  for (const int rescore : {0, 64, kMaxRescore}) {
    const Recipe recipe = read(str_format(R"({{"base": "w4", "head": "lpbq4", "rescore": {}}})", rescore));
    EXPECT_EQ(recipe.rescore, rescore);
    EXPECT_EQ(read(recipe.to_json()), recipe);
  }
  expect_error(R"({"base": "w4", "rescore": -1})", {"\"rescore\"", "-1", "0 to 4096"});
  expect_error(R"({"base": "w4", "rescore": 4097})", {"\"rescore\"", "4097"});
  expect_error(R"({"base": "w4", "rescore": 64.5})", {"\"rescore\"", "64.5"});
  expect_error(R"({"base": "w4", "rescore": "all"})", {"\"rescore\"", "all"});
  expect_error(R"({"base": "w4", "rescore": [64]})", {"\"rescore\"", "array"});
}

TEST(Recipe, FormatsAreReadByTheirNames) {
  EXPECT_EQ(*parse_weight_spec("lpbq4"), kLpbq32);
  EXPECT_EQ(*parse_weight_spec("int8"), kInt8);
  const auto unknown = parse_weight_spec("int4");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("did you mean \"lpbq4\"?"), std::string::npos) << unknown.error().message;
}

TEST(Recipe, ReportsRulesThatMatchNothing) {
  const Recipe recipe = read(R"({"base": "w4", "rules": [{"match": "layers.*.mlp.down", "format": "int8"},
    {"match": "layers.*.mlp.dwn", "format": "int8"}, {"match": "layers.{28..40}.*", "format": "int8"}]})");
  const std::vector<std::string> names = {"embedding", "layers.0.mlp.down", "layers.27.mlp.down"};
  EXPECT_EQ(recipe.unmatched_rules(names), (std::vector<std::string>{"layers.*.mlp.dwn", "layers.{28..40}.*"}));
}

TEST(Recipe, ErrorsNameTheThingAndWhatIsPossible) {
  expect_error("", {"not valid JSON"});
  expect_error("[]", {"should be an object"});
  expect_error("{}", {"\"base\"", "w4", "\"weights\""});
  expect_error(R"({"base": "w5"})", {"\"w5\"", "fp32, fp16, bf16, w8, w4"});
  expect_error(R"({"base": "w4", "wieghts": "int8"})", {"\"wieghts\"", "did you mean \"weights\"?", "embedding"});
  expect_error(R"({"base": "w4", "weights": "int4"})", {"\"int4\"", "did you mean \"lpbq4\"?", "bf16"});
  expect_error(R"({"base": "w4", "weights": "f16"})", {"did you mean \"fp16\"?"});
  expect_error(R"({"base": "w4", "weights": {"block": 32}})", {"\"weights\"", "no \"format\"", "lpbq4"});
  expect_error(R"({"base": "w4", "weights": {"format": "int8", "block": 32}})", {"only lpbq4 has blocks"});
  expect_error(R"({"base": "w4", "weights": {"format": "lpbq4", "block": 128}})", {"128", "16, 32, 64"});
  expect_error(R"({"base": "w4", "weights": {"format": "lpbq4", "block": 32.0}})", {"16, 32, 64"});
  expect_error(R"({"base": "w4", "weights": {"format": "lpbq4", "block": [1]}})", {"16, 32, 64"});
  expect_error(R"({"base": "w4", "weights": {"format": "lpbq4", "bits": 4}})", {"\"bits\"", "format, block"});
  expect_error(R"({"base": "w4", "weights": null})", {"\"weights\"", "null"});
  expect_error(R"({"base": "w4", "kv": "fp8"})", {"\"kv\"", "fp32, fp16, u8"});
  expect_error(R"({"base": "w4", "kv": 16})", {"\"kv\"", "string"});
  expect_error(R"({"base": "w4", "mask": "fp32"})", {"f32, f16, u16, u8", "did you mean \"f32\"?"});
  expect_error(R"({"base": "w4", "logits": "u8"})", {"\"logits\"", "f32, f16, u16"});
  expect_error(R"({"base": "w4", "activations": "fp16"})", {"\"activations\"", "int8, int16, auto"});
  expect_error(R"({"base": "w4", "rules": [{"match": "*", "activations": "a16"}]})", {"rule 1", "int8, int16, auto"});
  expect_error(R"({"base": "w4", "rules": [{"match": "*", "activations": "int16", "block": 32}]})", {"no \"format\""});
  expect_error(R"({"base": "w4", "rules": [{"match": "*"}]})", {"rule 1", "no \"format\""});
  expect_error(R"({"base": "w4", "name": ""})", {"\"name\""});
  expect_error(R"({"base": "w4", "rules": {}})", {"\"rules\"", "list"});
  expect_error(R"({"base": "w4", "rules": [3]})", {"rule 1"});
  expect_error(R"({"base": "w4", "rules": [{"match": "*", "format": "int8"}, {"format": "int8"}]})",
               {"rule 2", "match"});
  expect_error(R"({"base": "w4", "rules": [{"match": "layers.[0", "format": "int8"}]})", {"rule 1", "layers.[0"});
  expect_error(R"({"base": "w4", "rules": [{"match": "*", "format": "int8", "kv": "u8"}]})", {"rule 1", "\"kv\""});
}

TEST(Recipe, LoadsFiles) {
  const auto path =
      std::filesystem::temp_directory_path() / ("tandem_recipe_test_" + std::to_string(getpid()) + ".json");
  std::ofstream(path) << R"({"base": "w8", "name": "from file"})";
  const auto good = Recipe::load(path.string());
  std::ofstream(path) << R"({"base": "w8", "nmae": "from file"})";
  const auto bad = Recipe::load(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(good.ok()) << good.error().message;
  EXPECT_EQ(good->name, "from file");
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(bad.error().message.find(path.string()), std::string::npos);

  const auto absent = Recipe::load("fp61");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_NE(absent.error().message.find("fp32, fp16, bf16, w8, w4"), std::string::npos);
  EXPECT_FALSE(Recipe::load("").ok());
  EXPECT_FALSE(Recipe::load("/").ok());
  const auto wrong = parse_kv_format("u32");
  ASSERT_FALSE(wrong.ok());
  for (const KvFormat format : {KvFormat::kFp32, KvFormat::kFp16, KvFormat::kU8, KvFormat::kU16}) {
    EXPECT_EQ(*parse_kv_format(kv_format_name(format)), format);
    EXPECT_NE(wrong.error().message.find(kv_format_name(format)), std::string::npos) << wrong.error().message;
  }
}

TEST(Glob, Matches) {
  struct Case {
    const char* pattern;
    const char* text;
    bool matches;
  };
  const Case cases[] = {
      {"head", "head", true},
      {"head", "heads", false},
      {"*", "", true},
      {"*", "layers.0.mlp.down", true},
      {"layers.*.mlp.down", "layers.10.mlp.down", true},
      {"layers.*.mlp.down", "layers.10.mlp.gate", false},
      {"layers.*.mlp.down", "layers.10.mlp.down.x", false},
      {"*.?", "layers.0.attention.q", true},
      {"*.?", "layers.0.mlp.up", false},
      {"layers.[0-1].*", "layers.1.mlp.up", true},
      {"layers.[0-1].*", "layers.11.mlp.up", false},
      {"layers.[13579].*", "layers.7.x", true},
      {"*.[qk]", "layers.7.attention.k", true},
      {"*.[!qk]", "layers.7.attention.k", false},
      {"*.[!qk]", "layers.7.attention.v", true},
      {"[]x]", "]", true},
      {"[a-]", "-", true},
      {"layers.{8..12}.*", "layers.8.x", true},
      {"layers.{8..12}.*", "layers.12.x", true},
      {"layers.{8..12}.*", "layers.13.x", false},
      {"layers.{8..12}.*", "layers.1.x", false},
      {"layers.{0..2}*", "layers.25", false},
      {"*{2..2}", "layers.12", false},
      {"*{7}", "layers.7", true},
      {"{0..9}", "07", false},
      {"{0..9}", "99999999999999999999999", false},
      {"a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
      {"a*a*b", "axxaxxb", true},
  };
  for (const Case& c : cases) {
    const auto glob = Glob::compile(c.pattern);
    ASSERT_TRUE(glob.ok()) << c.pattern << ": " << glob.error().message;
    EXPECT_EQ(glob->matches(c.text), c.matches) << c.pattern << " on " << c.text;
  }
}

TEST(Glob, RefusesBrokenPatterns) {
  for (const char* pattern : {"", "[", "[]", "[!]", "a[b", "[z-a]", "{", "{}", "{1..", "{3..1}", "{a..b}", "{1..2..3}",
                              "{01..2}", "{-1..2}", "{0..9999999999}"}) {
    EXPECT_FALSE(Glob::compile(pattern).ok()) << pattern;
  }
  const auto trap = Glob::compile("layers.[10-15].*");
  ASSERT_FALSE(trap.ok());
  EXPECT_NE(trap.error().message.find("{10..15}"), std::string::npos) << trap.error().message;
  EXPECT_FALSE(Glob::compile(std::string(300, 'a')).ok());
}

}  // namespace recipe_test
}  // namespace tandem
