// Chips that are not in the table: what their files may say, and what becomes of it.
#include "backends/qnn/compile/chip_file.h"

#include <gtest/gtest.h>

#include "backends/qnn/api/binary_info.h"
#include "backends/qnn/compile/npu_options.h"
#include "backends/qnn/compile/npu_support.h"

namespace tandem {
namespace chip_file_test {

ChipFile must_parse(std::string_view text) {
  auto chip = parse_chip(text);
  EXPECT_TRUE(chip.ok()) << chip.error().message;
  return chip.ok() ? *chip : ChipFile();
}

TEST(ChipFiles, AChipMayBeDescribedInFull) {
  const ChipFile chip = must_parse(R"({"name": "lab-1", "soc_model": 4000, "hexagon": 75, "vtcm_mb": 4,
    "limits": {"graph_mb": 3000, "binary_mb": 1000}})");
  EXPECT_EQ(chip.target.name, "lab-1");
  EXPECT_EQ(chip.target.backend, "qnn");
  EXPECT_EQ(chip.target.soc_model, 4000u);
  EXPECT_EQ(chip.target.arch, 75);
  EXPECT_EQ(chip.target.vtcm_mb, 4);
  EXPECT_TRUE(chip.target.shares_weights);
  EXPECT_FALSE(chip.target.is_simulated);
  EXPECT_EQ(chip.target.graph_limit, uint64_t{3000} << 20);
  EXPECT_EQ(chip.target.binary_limit, uint64_t{1000} << 20);
  EXPECT_EQ(chip.target.usual_limit, uint64_t{1000} << 20) << "nothing is planned beyond what it loads";
  EXPECT_TRUE(chip.settings.empty());
}

TEST(ChipFiles, WhatIsLeftOutComesFromTheBaseOrTheSameChip) {
  const ChipFile other = must_parse(R"({"base": "sm8750", "soc_model": 4000})");
  EXPECT_EQ(other.target.name, "soc4000");
  EXPECT_EQ(other.target.arch, 79);
  EXPECT_EQ(other.target.vtcm_mb, 8);
  EXPECT_EQ(other.target.binary_limit, kNpuGraphLimit);
  EXPECT_EQ(other.target.usual_limit, kNpuShardLimit);
  const ChipFile same = must_parse(R"({"soc_model": 30})");
  EXPECT_EQ(same.target.arch, 68);
  EXPECT_EQ(same.target.vtcm_mb, 4);
  EXPECT_FALSE(same.target.shares_weights);
  EXPECT_TRUE(must_parse(R"({"soc_model": 72})").target.is_simulated);
  const ChipFile copy = other;
  EXPECT_EQ(copy.target.name.data(), copy.name.data()) << "a copy has a name of its own";
}

struct Mistake {
  const char* text;
  std::vector<const char*> says;
};

TEST(ChipFiles, MistakesAreSentences) {
  const std::string long_name(65, 'x');
  const std::vector<Mistake> mistakes = {
      {"", {"the description of a chip"}},
      {"{", {"the description of a chip"}},
      {"[]", {"no JSON object"}},
      {"69", {"no JSON object"}},
      {"{}", {"\"soc_model\" is missing", "\"base\""}},
      {R"({"soc_model": 4000})", {"\"hexagon\" is missing"}},
      {R"({"soc_model": 4000, "hexagon": 79})", {"\"vtcm_mb\" is missing"}},
      {R"({"soc_model": 69, "vtcm": 8})", {"the key \"vtcm\" is unknown", "vtcm_mb"}},
      {R"({"soc_model": "69"})", {"soc_model"}},
      {R"({"soc_model": 69.5})", {"soc_model"}},
      {R"({"soc_model": 0})", {"\"soc_model\" is 0", "from 1"}},
      {R"({"soc_model": -1})", {"\"soc_model\" is -1"}},
      {R"({"soc_model": 99999999999999999999})", {"soc_model"}},
      {R"({"soc_model": 69, "hexagon": 75})", {"\"hexagon\" is 75", "69 has the architecture V79"}},
      {R"({"soc_model": 4000, "hexagon": 85, "vtcm_mb": 8})", {"\"hexagon\" is 85", "does not support", "68, 69, 73"}},
      {R"({"soc_model": 69, "vtcm_mb": 0})", {"\"vtcm_mb\" is 0"}},
      {R"({"soc_model": 69, "vtcm_mb": 65})", {"\"vtcm_mb\" is 65", "1 to 64"}},
      {R"({"base": "cpu"})", {"\"base\" is \"cpu\"", "tandem targets"}},
      {R"({"base": 5})", {"base"}},
      {R"({"base": "sm8750", "name": "sm8750"})", {"\"name\" is \"sm8750\"", "another"}},
      {R"({"base": "sm8750", "name": "a b"})", {"\"name\" is \"a b\""}},
      {R"({"base": "sm8750", "name": ""})", {"\"name\""}},
      {R"({"base": "sm8750", "limits": 5})", {"\"limits\" is no object"}},
      {R"({"base": "sm8750", "limits": {"shard_mb": 5}})", {"\"shard_mb\" of \"limits\"", "graph_mb, binary_mb"}},
      {R"({"base": "sm8750", "limits": {"graph_mb": 3585}})", {"\"graph_mb\" is 3585", "1 to 3584"}},
      {R"({"base": "sm8750", "signed_pd": 1})", {"signed_pd"}},
      {R"({"base": "sm8750", "profile": true})", {"profile"}},
  };
  for (const Mistake& mistake : mistakes) {
    const auto chip = parse_chip(mistake.text);
    ASSERT_FALSE(chip.ok()) << mistake.text;
    for (const char* part : mistake.says) EXPECT_HAS(chip.error().message, part);
    EXPECT_EQ(chip.error().message.find('\n'), std::string::npos) << chip.error().message;
  }
  EXPECT_FALSE(parse_chip(R"({"base": "sm8750", "name": ")" + long_name + "\"}").ok());
}

class ChipOptions : public ::testing::Test {
 protected:
  Result<NpuOptions> parse(std::string_view text, BackendOptions options = {}) {
    test::write_file(folder_ / "chip.json", text);
    options["soc"] = (folder_ / "chip.json").string();
    return parse_npu_options(options);
  }

  const test::TempFolder folder_;
};

TEST_F(ChipOptions, SettingsOfTheFileAreThoseOfTheFlagsAndFlagsWin) {
  const char* const text = R"({"base": "sm8750", "vtcm_mb": 4, "hvx_threads": 4, "optimization_level": 2,
    "signed_pd": true, "profile": "sustained"})";
  auto options = parse(text);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->hvx_threads, 4);
  EXPECT_EQ(options->optimization_level, 2);
  EXPECT_TRUE(options->signed_pd);
  EXPECT_EQ(options->profile, "sustained");
  auto target = chosen_target(**find_target("sm8750"), *options);
  ASSERT_TRUE(target.ok()) << target.error().message;
  EXPECT_EQ(target->vtcm_mb, 4);
  options = parse(text, {{"vtcm-mb", "2"}, {"hvx-threads", "1"}, {"signed-pd", "false"}, {"profile", "burst"}});
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->hvx_threads, 1);
  EXPECT_EQ(options->optimization_level, 2);
  EXPECT_FALSE(options->signed_pd);
  EXPECT_EQ(options->profile, "burst");
  EXPECT_EQ(chosen_target(**find_target("sm8750"), *options)->vtcm_mb, 2);
}

TEST_F(ChipOptions, MistakesNameTheFile) {
  for (const auto& [text, says] : {std::pair(R"({"base": "sm8750", "hvx_threads": 17})", "1 to 16"),
                                   {R"({"base": "sm8750", "optimization_level": 1})", "2 to 3"},
                                   {R"({"base": "sm8750", "profile": "warp"})", "warp"},
                                   {R"({"bass": "sm8750"})", "\"bass\" is unknown"}}) {
    const auto options = parse(text);
    ASSERT_FALSE(options.ok()) << text;
    EXPECT_HAS(options.error().message, "chip.json");
    EXPECT_HAS(options.error().message, says);
  }
  EXPECT_EQ(parse_npu_options({{"soc", "/nonexistent/chip.json"}}).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(parse_npu_options({{"soc", folder_.path().string()}}).ok()) << "a folder";
  EXPECT_FALSE(parse(std::string(100'000, ' ')).ok()) << "too large";
}

TEST_F(ChipOptions, ATargetOfAnotherArchitectureAndTooMuchVtcmAreRefused) {
  const auto options = parse(R"({"base": "sm8750"})");
  ASSERT_TRUE(options.ok()) << options.error().message;
  const auto other = chosen_target(**find_target("sm8650"), *options);
  ASSERT_FALSE(other.ok());
  EXPECT_HAS(other.error().message, "`target` is sm8650, a Hexagon V75, and the chip of `soc` is a V79");
  const auto vtcm = chosen_target(**find_target("sm8750"), *parse_npu_options({{"vtcm-mb", "9"}}));
  ASSERT_FALSE(vtcm.ok());
  EXPECT_HAS(vtcm.error().message, "`vtcm-mb` is 9, and sm8750 has 8 MB");
}

TEST_F(ChipOptions, ImplyATarget) {
  EXPECT_EQ(default_target(), "cpu");
  ASSERT_TRUE(parse(R"({"base": "sm8650"})").ok());
  const BackendOptions options = {{"soc", (folder_ / "chip.json").string()}};
  EXPECT_EQ(npu_target(default_target(options)).arch, 75);
  EXPECT_EQ(find_target(default_target({{"soc", "/nonexistent"}})).value()->backend, "qnn")
      << "which says what is wrong";
}

// ---- With Qualcomm's library ----

// The example of docs/targets.md.
std::string example() {
  const auto bytes = test::read_file(std::filesystem::path(TANDEM_SOURCE_DIR) / "docs/targets.md");
  const std::string text(bytes.begin(), bytes.end());
  const size_t begin = text.find("```json\n"), end = text.find("```\n", begin + 8);
  EXPECT_NE(begin, std::string::npos);
  return begin == std::string::npos ? std::string() : text.substr(begin + 8, end - begin - 8);
}

TEST(CustomChips, TheExampleOfTheDocumentationCompilesAndRunsAndItsFileSaysWhatItWasCompiledFor) {
  TANDEM_NEEDS_QNN();
  const test::TempFolder folder;
  test::write_file(folder / "chip.json", std::string_view(example()));
  CompileOptions options = test::npu_options("w8", {});
  options.calibration.samples = 1;
  options.backend["soc"] = (folder / "chip.json").string();
  options.backend["shards"] = "1";
  options.target = default_target(options.backend);
  test::must_compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
  const auto artifact = Artifact::open(folder / "x.tdm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const ArtifactHeader& header = artifact->header();
  EXPECT_EQ(header.target, "lab-phone");
  EXPECT_EQ(header.device.soc_model, 69u);
  EXPECT_EQ(header.device.arch, 79);
  EXPECT_EQ(header.device.vtcm_mb, 4);
  EXPECT_EQ(header.device.hvx_threads, 4);
  EXPECT_EQ(header.device.optimization_level, 2);
  EXPECT_FALSE(header.device.signed_pd);
  EXPECT_EQ(header.device.profile, "sustained");
  const auto info = qnn::read_binary_info(*qnn::test::qnn_library().value(), artifact->bytes(header.shards[0].binary));
  ASSERT_TRUE(info.ok()) << info.error().message;
  ASSERT_FALSE(info->graphs.empty());
  for (const qnn::GraphInfo& graph : info->graphs) {
    EXPECT_EQ(graph.vtcm_bytes, uint64_t{4} << 20) << graph.name;
    // QAIRT 2.47 answers 6, whatever it was told.
    if (info->htp_version.minor >= 48) {
      EXPECT_EQ(graph.hvx_threads, 4u) << graph.name;
    }
    EXPECT_EQ(graph.optimization_level, 2u) << graph.name;
  }
  const std::vector<int32_t> tokens = {1, 5, 9, 2, 7, 3};
  const auto logits = test::device_logits(folder / "x.tdm", tokens);
  const auto expected = test::phase_logits(folder / "x.tdm", test::golden_dir("qwen3"), Phase::kQdq, tokens);
  ASSERT_EQ(logits.size(), expected.size());
  double signal = 0, noise = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    signal += double{expected[i]} * expected[i];
    noise += (double{logits[i]} - expected[i]) * (double{logits[i]} - expected[i]);
  }
  EXPECT_GT(10 * std::log10(signal / noise), 30.0);
}

TEST(CustomChips, ANumberOfAnotherArchitectureIsRefusedByWhatTheLibraryMadeOfIt) {
  TANDEM_NEEDS_QNN();
  const test::TempFolder folder;
  // The library knows 103 (V85), and tandem does not.
  for (const auto& [number, says] : {std::pair("4000", "does not know this SoC"), {"103", "V85"}}) {
    test::write_file(folder / "chip.json",
                     std::string_view(R"({"base": "sm8750", "soc_model": )" + std::string(number) + "}"));
    CompileOptions options = test::npu_options("w8", {});
    options.calibration.samples = 1;
    options.backend["soc"] = (folder / "chip.json").string();
    options.backend["shards"] = "1";
    const auto report = compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
    ASSERT_FALSE(report.ok()) << number;
    EXPECT_HAS(report.error().message, says);
    EXPECT_FALSE(std::filesystem::exists(folder / "x.tdm"));
  }
}

}  // namespace chip_file_test
}  // namespace tandem
