// What a target cannot do is refused with the rule and a remedy, before any work.
#include "backends/qnn/compile/npu_rules.h"

#include <gtest/gtest.h>

#include "backends/qnn/compile/npu_support.h"
#include "backends/qnn/compile/npu_targets.h"
#include "compiler/target_rules.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace target_rules_test {

struct Resolved {
  Status status;
  Recipe recipe;
  std::vector<std::string> notes;
};

Resolved resolve(const char* target, const std::string& recipe, CompileOptions options = {},
                 const std::vector<int64_t>& prefill = {}, const char* family = "qwen3") {
  const test::OpenedModel model(test::golden_dir(family));
  Resolved resolved;
  resolved.recipe = test::parse_recipe(recipe);
  resolved.status =
      apply_target_rules({**find_target(target), model.plan(), options, prefill}, resolved.recipe, resolved.notes);
  return resolved;
}

CompileOptions with_kv(KvFormat kv) {
  CompileOptions options;
  options.kv = kv;
  return options;
}

void expect_refused(const Resolved& resolved, std::initializer_list<const char*> parts,
                    ErrorCode code = ErrorCode::kUnsupported) {
  ASSERT_FALSE(resolved.status.ok());
  EXPECT_EQ(resolved.status.error().code, code);
  for (const char* part : parts) EXPECT_HAS(resolved.status.error().message, part);
  EXPECT_EQ(resolved.status.error().message.find('\n'), std::string::npos);
}

TEST(TargetTable, SaysWhatTheArchitecturesCanDo) {
  const std::map<std::string, std::pair<uint32_t, int>> known = {
      {"sm8350", {30, 68}},  {"sm8450", {36, 69}},  {"sm8475", {42, 69}},   {"sm8550", {43, 73}},
      {"sm8635", {68, 73}},  {"sm8650", {57, 75}},  {"sm8750", {69, 79}},   {"sm8845", {97, 81}},
      {"sm8850", {87, 81}},  {"sc8280x", {37, 68}}, {"sc8380xp", {60, 73}}, {"sc8480xp", {88, 81}},
      {"qcs6490", {93, 68}}, {"qcs9100", {77, 73}}, {"sa8255", {52, 73}},   {"sa8295", {39, 68}},
      {"sa8540", {62, 68}},  {"sa8797", {72, 81}},  {"ssg2115p", {46, 73}}, {"sxr2230p", {53, 69}},
      {"sxr2330p", {75, 79}}};
  EXPECT_EQ(npu_targets().size(), known.size());
  for (const auto& [name, chip] : known) {
    SCOPED_TRACE(name);
    const auto target = find_target(name);
    ASSERT_TRUE(target.ok()) << target.error().message;
    EXPECT_EQ((*target)->backend, "qnn");
    EXPECT_EQ(npu_target(name).soc_model, chip.first);
    EXPECT_EQ(npu_target(name).arch, chip.second);
    EXPECT_EQ(device_name(chip.first), name);
    EXPECT_EQ(qnn::known_arch(chip.first), chip.second) << "the API layer knows it too";
    EXPECT_EQ(npu_target(name).shares_weights, chip.second >= 73);
    EXPECT_EQ(std::ranges::count((*target)->kv_dtypes, DType::kU16), chip.second >= 73 ? 1 : 0);
    EXPECT_EQ(std::ranges::count((*target)->weight_formats, WeightFormat::kLpbq4), chip.second >= 69 ? 1 : 0);
  }
  EXPECT_EQ(device_name(4000), "SoC 4000");
}

TEST(TargetTable, NamesTheRelativeWhoseEstimatesATargetGets) {
  const std::map<std::string, std::string> relatives = {
      {"sa8540", "sa8540"}, {"sa8255", "sa8255"}, {"qcs9100", "qcs9100"}, {"sa8797", "sa8797"},
      {"sm8350", "sa8540"}, {"sa8295", "sa8540"}, {"sm8450", "sa8255"},   {"sm8550", "sa8255"},
      {"sm8650", "sa8255"}, {"sm8750", "sa8797"}, {"sm8850", "sa8797"}};
  for (const auto& [name, relative] : relatives) {
    EXPECT_EQ(estimated_as(npu_target(name)).name, relative) << name;
    EXPECT_EQ(npu_target(name).is_simulated, name == relative) << name;
  }
  for (const NpuTarget& target : npu_targets()) {
    const NpuTarget& relative = estimated_as(target);
    EXPECT_TRUE(relative.is_simulated) << target.name;
    for (const WeightFormat format : target.weight_formats) {
      EXPECT_EQ(std::ranges::count(relative.weight_formats, format), 1)
          << target.name << " does what its relative cannot";
    }
  }
}

TEST(TargetRules, V68HasNoWeightsOfFourBits) {
  expect_refused(resolve("sm8350", "w4"), {"sm8350", "V68", "lpbq4", "from V69 on", "`recipe` w8"});
  expect_refused(resolve("sa8540", R"({"base": "w8", "rules": [{"match": "layers.1.mlp.down", "format": "lpbq4"}]})"),
                 {"layers.1.mlp.down", "`recipe` w8"});
  EXPECT_TRUE(resolve("sm8350", "w8").status.ok());
  EXPECT_TRUE(resolve("sm8350", "fp16").status.ok());
  expect_refused(resolve("sm8350", "w8", {}, {32}), {"V68", "cannot share weights", "`unshared`"});
  expect_refused(resolve("sm8350", "w8", with_kv(KvFormat::kU16)), {"V68", "`kv` u8"});
}

TEST(TargetRules, EstimatesAreForNpus) {
  CompileOptions options;
  options.backend["estimate"] = "true";
  expect_refused(resolve("cpu", "w4", options), {"`estimate` is for NPU targets", "cpu"}, ErrorCode::kInvalidArgument);
  options.backend = {{"estimate-json", "estimate.json"}};
  expect_refused(resolve("cpu", "w4", options), {"`estimate-json` is for NPU targets"}, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(resolve("sm8750", "w4", options).status.ok());
}

TEST(TargetRules, V69SharesNoWeights) {
  expect_refused(resolve("sm8450", "w4", {}, {32}),
                 {"sm8450", "V69", "cannot share weights", "from V73 on", "`decode_only`", "`unshared`"});
  EXPECT_TRUE(resolve("sm8450", "w4", {}, {}).status.ok()) << "kv";
  CompileOptions unshared;
  unshared.backend["unshared"] = "true";
  EXPECT_TRUE(resolve("sm8450", "w4", unshared, {32}).status.ok());
  CompileOptions emulator;
  emulator.backend["emulator"] = "true";
  EXPECT_TRUE(resolve("sm8450", "w4", emulator, {32}).status.ok()) << "never shared there";
  for (const char* target : {"sm8550", "sm8650", "sm8750", "sm8850"}) {
    EXPECT_TRUE(resolve(target, "w4", {}, {32}).status.ok()) << target;
  }
}

TEST(TargetRules, MethodsOf16TokensAreRefused) {
  for (const char* target : {"sm8550", "sm8750", "sm8850"}) {
    expect_refused(resolve(target, "w4", {}, {16}), {"16 tokens", "wrongly", "`prefill` 8 or 32"});
    expect_refused(resolve(target, "w8", {}, {8, 16}), {"16 tokens"});
    EXPECT_TRUE(resolve(target, "fp16", {}, {16}).status.ok()) << target;
    EXPECT_TRUE(resolve(target, "w4", {}, {8, 15, 17, 32}).status.ok()) << target;
  }
  EXPECT_TRUE(resolve("cpu", "w4", {}, {16}).status.ok());
}

TEST(TargetRules, KvFormatsAreCheckedAndResolved) {
  expect_refused(resolve("sm8475", "w4", with_kv(KvFormat::kU16)), {"V69", "u16", "from V73 on", "`kv` u8"});
  EXPECT_TRUE(resolve("sm8550", "w4", with_kv(KvFormat::kU16)).status.ok());
  expect_refused(resolve("sm8750", "w4", with_kv(KvFormat::kFp16)), {"u8 or u16", "not as fp16"});
  expect_refused(resolve("sm8750", "w4", with_kv(KvFormat::kFp32)), {"u8 or u16", "not as fp32"});
  expect_refused(resolve("sm8750", "fp16", with_kv(KvFormat::kU8)), {"fp16", "not as u8"});
  // Without an option the format is resolved.
  EXPECT_EQ(resolve("sm8750", "w4").recipe.kv, KvFormat::kU8);
  EXPECT_EQ(resolve("sm8750", "fp16").recipe.kv, KvFormat::kFp16);
  EXPECT_EQ(resolve("cpu", "w4").recipe.kv, KvFormat::kFp16);
  expect_refused(resolve("cpu", "w4", with_kv(KvFormat::kU16)), {"cpu", "u16", "`kv` fp32, fp16 or u8"});
}

TEST(TargetRules, Formats) {
  expect_refused(resolve("sm8750", "fp32"), {"sm8750", "fp32 weights", "`recipe` w4, w8 or fp16"});
  expect_refused(resolve("sm8750", "bf16"), {"bf16 weights", "`recipe` w4, w8 or fp16"});
  for (const char* mixed : {R"({"base": "w4", "rules": [{"match": "layers.1.mlp.down", "format": "fp16"}]})",
                            R"({"base": "fp16", "rules": [{"match": "layers.1.mlp.down", "format": "int8"}]})"}) {
    expect_refused(resolve("sm8750", mixed), {"all of it in fp16", "layers.1.mlp.down", "int8"});
  }
  expect_refused(resolve("sm8750", R"({"base": "w4", "head": "fp16"})"), {"\"head\" is fp16"});
  EXPECT_TRUE(resolve("sm8750", R"({"base": "w4", "rules": [{"match": "layers.1.*", "format": "int8"}]})").status.ok());
  // The embedding is a table, and none of these.
  EXPECT_TRUE(resolve("sm8750", R"({"base": "w4", "embedding": "fp32"})").status.ok());
}

TEST(TargetRules, MaskAndLogitsHaveTheDtypeOfTheGraphsActivations) {
  EXPECT_EQ(resolve("sm8750", "w4").recipe.mask, DType::kU16);
  EXPECT_EQ(resolve("sm8750", "w4").recipe.logits, DType::kU16);
  EXPECT_EQ(resolve("sm8750", "fp16").recipe.mask, DType::kF16);
  EXPECT_EQ(resolve("sm8750", "fp16").recipe.logits, DType::kF16);
  EXPECT_EQ(resolve("cpu", "w4").recipe.mask, DType::kF32);
}

// 172 and 72 inputs are not multiples of 32; 64 and 160 are.
TEST(TargetRules, ABlockThatDoesNotDivideBecomesEightBits) {
  const Resolved llama = resolve("sm8750", "w4", {}, {}, "llama2");
  ASSERT_TRUE(llama.status.ok()) << llama.status.error().message;
  ASSERT_EQ(llama.notes.size(), 2u) << "mlp.down of two layers";
  EXPECT_HAS(llama.notes[0], "\"layers.0.mlp.down\" takes 8 bits");
  EXPECT_HAS(llama.notes[0], "172");
  EXPECT_HAS(llama.notes[0], "32");
  EXPECT_EQ(llama.recipe.spec_for("layers.0.mlp.down").format, WeightFormat::kI8);
  EXPECT_EQ(llama.recipe.spec_for("layers.0.mlp.up").format, WeightFormat::kLpbq4);
  const Resolved smollm = resolve("sm8750", "w4", {}, {}, "smollm2");
  ASSERT_TRUE(smollm.status.ok());
  EXPECT_EQ(smollm.recipe.spec_for("layers.0.attention.q").format, WeightFormat::kI8);
  // A block that divides needs no note, nor does a CPU.
  EXPECT_TRUE(resolve("sm8750", "w4", {}, {}, "qwen3").notes.empty());
  EXPECT_TRUE(resolve("cpu", "w4", {}, {}, "llama2").notes.empty());
  EXPECT_EQ(resolve("cpu", "w4", {}, {}, "llama2").recipe.spec_for("layers.0.mlp.down").format, WeightFormat::kLpbq4);
}

TEST(TargetRules, ActivationsHave16BitsOnAnNpu) {
  CompileOptions options;
  options.activations = ActivationFormat::kInt16;
  expect_refused(resolve("sm8750", "w4", options), {"`activations` is for the CPU", "16 bits"});
  EXPECT_TRUE(resolve("sm8750", "w4").notes.empty());
  const Resolved resolved = resolve("sm8750", R"({"base": "w4", "activations": "auto"})");
  ASSERT_TRUE(resolved.status.ok()) << resolved.status.error().message;
  ASSERT_EQ(resolved.notes.size(), 1u);
  EXPECT_HAS(resolved.notes[0], "16 bits");
  EXPECT_EQ(resolve("cpu", "w4", options).recipe.activations, ActivationFormat::kInt16);
}

// HTP's op takes 16-bit integers and heads of 64 and more; qwen3's have 32 here.
TEST(TargetRules, RotationsThatTheTargetCannotDoAreLeftOut) {
  const auto expect_left_out = [](const Resolved& resolved, const char* why) {
    ASSERT_TRUE(resolved.status.ok()) << resolved.status.error().message;
    EXPECT_FALSE(resolved.recipe.transforms.rotate_keys);
    ASSERT_FALSE(resolved.notes.empty());
    EXPECT_HAS(resolved.notes[0], "r3");
    EXPECT_HAS(resolved.notes[0], why);
  };
  const std::string w8 = R"({"base": "w8", "rotate": ["r3"]})";
  expect_left_out(resolve("sm8750", w8), "64 to 2048");
  expect_left_out(resolve("sm8450", w8), "V69");
  expect_left_out(resolve("sm8350", w8), "V68");
  expect_left_out(resolve("sm8750", R"({"base": "fp16", "rotate": ["r3"]})"), "integers");
  EXPECT_TRUE(resolve("cpu", w8).recipe.transforms.rotate_keys);
  const test::OpenedModel demo(test::demo_dir());
  Recipe recipe = test::parse_recipe(w8);
  std::vector<std::string> notes;
  ASSERT_TRUE(apply_target_rules({**find_target("sm8750"), demo.plan(), {}, {}}, recipe, notes).ok());
  EXPECT_TRUE(recipe.transforms.rotate_keys);
}

TEST(TargetRules, AnLmHeadInFourBitsIsRescored) {
  CompileOptions options;
  options.head = WeightSpec();
  const Resolved resolved = resolve("sm8750", "w8", options);
  ASSERT_TRUE(resolved.status.ok()) << resolved.status.error().message;
  EXPECT_TRUE(resolved.notes.empty());
  EXPECT_EQ(resolved.recipe.spec_for("head"), WeightSpec());
  EXPECT_EQ(resolved.recipe.rescore, kDefaultRescore);
  EXPECT_EQ(resolved.recipe.spec_for("embedding").format, WeightFormat::kI8) << "the CPU's table, however small";
  // Unless the user sets the number, or none.
  EXPECT_EQ(resolve("sm8750", R"({"base": "w4", "head": "lpbq4"})").recipe.rescore, kDefaultRescore);
  EXPECT_EQ(resolve("sm8750", R"({"base": "w4", "head": "lpbq4", "rescore": 64})").recipe.rescore, 64);
  options.rescore = 0;
  const Resolved none = resolve("sm8750", "w8", options);
  EXPECT_EQ(none.recipe.rescore, 0);
  EXPECT_EQ(none.recipe.spec_for("embedding").format, WeightFormat::kF32) << "in the graph";
  // A small table is in the graph, and then the preset's LM head has 8 bits. A CPU does not change the recipe.
  EXPECT_EQ(resolve("sm8750", "w4").recipe.spec_for("head").format, WeightFormat::kI8);
  EXPECT_EQ(resolve("sm8750", "w4").recipe.rescore, 0);
  EXPECT_EQ(resolve("cpu", "w4").recipe, *recipe_preset("w4"));
}

TEST(TargetRules, WhereTheCpuHasTheTableW4IncludesTheLmHead) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  ModelPlan plan = model.plan();
  plan.vocab_size = 1'000'000;
  const std::vector<int64_t> none;
  const auto resolve_large = [&](const char* target, Recipe recipe, const CompileOptions& options = {}) {
    std::vector<std::string> notes;
    const Status status = apply_target_rules({**find_target(target), plan, options, none}, recipe, notes);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return recipe;
  };
  EXPECT_EQ(resolve_large("sm8750", *recipe_preset("w4")).spec_for("head"), WeightSpec());
  EXPECT_EQ(resolve_large("sm8750", *recipe_preset("w4")).rescore, kDefaultRescore);
  // An explicit format is kept.
  CompileOptions options;
  options.head = WeightSpec{WeightFormat::kI8, 0};
  EXPECT_EQ(resolve_large("sm8750", *recipe_preset("w4"), options).spec_for("head").format, WeightFormat::kI8);
  EXPECT_EQ(resolve_large("sm8750", test::parse_recipe(R"({"base": "w4"})")).spec_for("head").format,
            WeightFormat::kI8);
  EXPECT_EQ(resolve_large("sm8750", *recipe_preset("w8")).rescore, 0);
  // If the CPU does not have the LM head's rows, it is unchanged.
  plan.tied = false;
  EXPECT_EQ(resolve_large("sm8750", *recipe_preset("w4")).spec_for("head").format, WeightFormat::kI8);
}

TEST(TargetRules, RescoringThatIsNotPossibleIsRefused) {
  CompileOptions options;
  options.rescore = 64;
  expect_refused(resolve("cpu", "w4", options), {"rescoring", "NPU", "cpu is none"});
  expect_refused(resolve("sm8750", "w4", options), {"int8", "`head` lpbq4"}, ErrorCode::kInvalidArgument);
  options.head = WeightSpec();
  expect_refused(resolve("sm8750", "w4", options, {}, "llama2"), {"not tied", "`head` int8"});
  expect_refused(resolve("sm8750", R"({"base": "w4", "embedding": "fp16"})", options), {"the embedding is not int8"});
  // 72 inputs.
  expect_refused(resolve("sm8750", "w4", options, {}, "smollm2"), {"takes 8 bits", "72", "leave `rescore` out"});
  // If the user did not request it, a note says what is missing.
  options.rescore.reset();
  const Resolved untied = resolve("sm8750", "w8", options, {}, "llama2");
  ASSERT_TRUE(untied.status.ok()) << untied.status.error().message;
  EXPECT_EQ(untied.recipe.rescore, 0);
  ASSERT_EQ(untied.notes.size(), 1u);
  EXPECT_HAS(untied.notes[0], "cannot be rescored");
}

TEST(TargetRules, OptionsOfNpusAreForNpus) {
  CompileOptions options;
  options.backend["emulator"] = "true";
  expect_refused(resolve("cpu", "w4", options), {"`emulator`", "cpu is none"}, ErrorCode::kInvalidArgument);
  options = {};
  options.backend["shards"] = "3";
  expect_refused(resolve("cpu", "w4", options), {"`shards`"}, ErrorCode::kInvalidArgument);
}

// Silently ignored, such an option would seem to have had an effect.
TEST(TargetRules, CalibrationOptionsAreNeverIgnored) {
  CompileOptions both;
  both.calibration.file = "text.txt";
  both.calibration.prompt = "Once upon a time";
  for (const char* target : {"cpu", "sm8750"}) {
    expect_refused(resolve(target, "w8", both), {"`calibration.file` and `calibration.prompt`", "leave one out"},
                   ErrorCode::kInvalidArgument);
  }
  const std::pair<const char*, void (*)(CalibrationOptions&)> cases[] = {
      {"`calibration.file`", [](CalibrationOptions& c) { c.file = "text.txt"; }},
      {"`calibration.prompt`", [](CalibrationOptions& c) { c.prompt = "Once upon a time"; }},
      {"`calibration.samples`", [](CalibrationOptions& c) { c.samples = 7; }},
      {"`calibration.length`", [](CalibrationOptions& c) { c.length = 7; }},
      {"`calibration.range`", [](CalibrationOptions& c) { c.method_given = true; }},
      {"`calibration.import_encodings`", [](CalibrationOptions& c) { c.import_encodings = "encodings.json"; }},
      {"`calibration.export_encodings`", [](CalibrationOptions& c) { c.export_encodings = "encodings.json"; }},
  };
  for (const auto& [flag, set] : cases) {
    CompileOptions options;
    set(options.calibration);
    expect_refused(resolve("sm8750", "fp16", options), {"needs no calibration", flag}, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(resolve("sm8750", "w8", options).status.ok()) << flag;
  }
}

TEST(NpuOptions, AreReadFromText) {
  const auto options = parse_npu_options({{"emulator", "true"},
                                          {"unshared", "true"},
                                          {"shards", "3"},
                                          {"attention", "gqa+kv,sha+k"},
                                          {"estimate-json", "e.json"},
                                          {"trace", "true"},
                                          {"jobs", "2"},
                                          {"memory", "1.5"},
                                          {"qnn-libs", "libs"},
                                          {"qnn-worker", "worker"}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_TRUE(options->emulator && options->trace && options->estimate) << "a file of estimates implies them";
  EXPECT_FALSE(options->share_weights || options->tune_graphs);
  EXPECT_EQ(options->shards, 3);
  EXPECT_EQ(options->jobs, 2);
  EXPECT_EQ(options->memory, uint64_t{3} << 29);
  EXPECT_EQ(attention_form_name(*options->decode_attention), "gqa+kv");
  EXPECT_EQ(attention_form_name(*options->prefill_attention), "sha+k");
  EXPECT_EQ(options->libraries, "libs");
  EXPECT_EQ(options->worker, "worker");
  const auto defaults = parse_npu_options({});
  ASSERT_TRUE(defaults.ok());
  EXPECT_TRUE(defaults->share_weights);
  EXPECT_EQ(defaults->shards, 0);
  EXPECT_EQ(defaults->memory, 0u);
  EXPECT_FALSE(defaults->decode_attention.has_value());
}

TEST(NpuOptions, InvalidValuesAreRefused) {
  const std::pair<BackendOptions, const char*> cases[] = {
      {{{"shard", "3"}}, "shards"},  // The list of those that are known.
      {{{"shards", "0"}}, "whole number"},
      {{{"trace", "yes"}}, "true or false"},
      {{{"memory", "nan"}}, "number above 0"},
      {{{"attention", "abc"}}, "`attention`: "},
      {{{"attention", "mha,mha,mha"}}, "one form, or two"},
      {{{"attention", "mha"}, {"tune-graphs", "true"}}, "leave one out"},
      {{{"tune-cache", "folder"}}, "`tune-graphs`"},
      {{{"qnn-libs", ""}}, "empty"}};
  for (const auto& [options, part] : cases) {
    const auto parsed = parse_npu_options(options);
    ASSERT_FALSE(parsed.ok()) << part;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_HAS(parsed.error().message, part);
  }
}

TEST(TargetRules, AnUnknownOptionIsRefused) {
  CompileOptions options;
  options.backend["shard"] = "3";
  for (const char* target : {"cpu", "sm8750", "reference"}) {
    expect_refused(resolve(target, "w4", options), {"no back end has the option `shard`", "shards"},
                   ErrorCode::kInvalidArgument);
  }
  // The location of a library requests nothing.
  options.backend = {{"qnn-libs", "/somewhere"}, {"trace", "false"}};
  EXPECT_TRUE(resolve("cpu", "w4", options).status.ok());
}

TEST(TargetRules, ALargeTableStaysWithTheCpu) {
  ModelPlan plan;
  plan.vocab_size = 2048;
  plan.hidden_size = 256;
  EXPECT_FALSE(embedding_on_host(plan, *recipe_preset("w4")));
  plan.vocab_size = 151'936;
  plan.hidden_size = 1024;
  EXPECT_TRUE(embedding_on_host(plan, *recipe_preset("w4")));
}

// compile() applies these rules before it opens a library or starts a worker: neither exists here.
TEST(TargetRules, ComeBeforeAnyWork) {
  const test::TempFolder folder;
  CompileOptions options = test::npu_options("w4");
  options.backend["qnn-worker"] = folder / "absent";
  options.backend["qnn-libs"] = folder / "absent";
  options.target = "sm8450";
  options.backend["emulator"] = "false";
  const auto report = compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
  ASSERT_FALSE(report.ok());
  EXPECT_HAS(report.error().message, "cannot share weights");
  EXPECT_EQ(folder.entries(), 0u);
}

}  // namespace target_rules_test
}  // namespace tandem
