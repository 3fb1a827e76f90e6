// Compiled for Qualcomm's emulator and run on it, against the reference interpreter on the same graphs.
#include <gtest/gtest.h>

#include "backends/qnn/api/version_rules.h"
#include "backends/qnn/compile/npu_support.h"
#include "support/same_program.h"

namespace tandem {
namespace emulator_test {

using test::TempFolder;

// The noise of the library's arithmetic. Most of it comes from keys and values in u8 on a rounding boundary: u16 gains
// 20 dB. These models are random and a few heads wide, so one quantized value matters more than in real ones.
constexpr double kDeviceNoise = 38.0;
// A value that differs in one layer makes more of them differ in the next.
constexpr double kNoiseOfFourLayers = 33.0;

double log_sqnr(const std::string& what, const std::vector<float>& wanted, const std::vector<float>& got) {
  const double db = test::sqnr_db(wanted, got);
  std::printf("[ sqnr     ] %s: %.1f dB\n", what.c_str(), db);
  testing::Test::RecordProperty(what, std::to_string(db));
  return db;
}

std::vector<int32_t> prompt_of(const char* family) {
  auto tokens = test::golden_prompt(family);
  tokens.resize(20);
  return tokens;
}

class EveryFamily : public testing::TestWithParam<const char*> {};

// Biases, norms of queries and keys, heads and widths that nothing divides, windows, caps, gelu, LayerNorm, rotary
// embedding of a part of a head and in neighbouring pairs, blocks side by side, factors.
TEST_P(EveryFamily, ComputesOnTheEmulatorWhatTheReferenceDoes) {
  TANDEM_NEEDS_QNN();
  const char* family = GetParam();
  const TempFolder folder;
  const auto report = test::must_compile(test::golden_dir(family), folder / "x.tdm", test::npu_options("w4"));
  EXPECT_EQ(report.methods, (std::vector<std::string>{"decode", "prefill_8"}));
  EXPECT_EQ(report.kv, KvFormat::kU8);
  EXPECT_EQ(report.shards.size(), 1u);
  EXPECT_EQ(report.segments_reused, 0u);
  EXPECT_EQ(folder.entries(), 1u) << "something was left behind";
  // Beyond windows, and beyond the length where Phi's rotary table changes.
  const auto prompt = test::golden_prompt(family);
  const auto qdq = test::phase_logits(folder / "x.tdm", test::golden_dir(family), Phase::kQdq, prompt);
  EXPECT_GE(log_sqnr(family, qdq, test::device_logits(folder / "x.tdm", prompt)), kNoiseOfFourLayers);
}

TEST_P(EveryFamily, ComputesInHalfPrecision) {
  TANDEM_NEEDS_QNN();
  const char* family = GetParam();
  const TempFolder folder;
  const auto report = compile(test::golden_dir(family), folder / "x.tdm", test::npu_options("fp16"));
  if (!report.ok() && report.error().message.find("needs QAIRT 2.48") != std::string::npos) {
    EXPECT_FALSE(qnn::rotary_embedding_takes_floats(qnn::test::qnn_library().value()->htp_version()));
    return;
  }
  ASSERT_TRUE(report.ok()) << report.error().message;
  const auto prompt = test::golden_prompt(family);
  const auto exact = test::phase_logits(folder / "x.tdm", test::golden_dir(family), Phase::kFloat, prompt);
  EXPECT_GE(log_sqnr(family, exact, test::device_logits(folder / "x.tdm", prompt)), kDeviceNoise);
}

INSTANTIATE_TEST_SUITE_P(Emulator, EveryFamily, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(Emulator, ShardsAndModesGiveTheSameTokens) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const auto checkpoint = test::golden_dir("qwen3");
  const auto prompt = prompt_of("qwen3");
  std::vector<float> expected;
  std::vector<int32_t> tokens;
  for (const auto& prefill : {std::vector<int64_t>{8}, {}}) {
    for (const int shards : {1, 3}) {
      SCOPED_TRACE(std::to_string(shards) + (prefill.empty() ? " shards, kv" : " shards, hybrid"));
      CompileOptions options = test::npu_options("w8", prefill);
      options.backend["shards"] = std::to_string(shards);
      const auto report = test::must_compile(checkpoint, folder / "x.tdm", options);
      EXPECT_EQ(report.shards.size(), static_cast<size_t>(shards));
      const auto engine = test::load_npu(folder / "x.tdm");
      ASSERT_NE(engine, nullptr);
      EXPECT_EQ(engine->mode(), prefill.empty() ? Mode::kKv : Mode::kHybrid);
      const auto session = test::new_session(*engine);
      const auto logits = test::score(*session, prompt);
      const auto greedy = test::greedy(*session, std::vector<int32_t>{1}, 6);
      if (tokens.empty()) {
        tokens = greedy;
        expected = logits;
        ASSERT_EQ(tokens.size(), 6u);
      }
      EXPECT_EQ(greedy, tokens);
      if (prefill.empty()) {
        // Other graphs that compute the same values.
        EXPECT_GE(log_sqnr("kv against hybrid", expected, logits), kDeviceNoise);
      } else {
        EXPECT_TRUE(logits == expected) << "the boundary between shards costs nothing";
      }
    }
  }
}

TEST(Emulator, HalfPrecisionIsCloseToFloat) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const auto checkpoint = test::golden_dir("llama3_2");
  const auto report = test::must_compile(checkpoint, folder / "x.tdm", test::npu_options("fp16"));
  EXPECT_EQ(report.kv, KvFormat::kFp16);
  const auto prompt = prompt_of("llama3_2");
  const auto got = test::device_logits(folder / "x.tdm", prompt);
  const auto exact = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kFloat, prompt);
  EXPECT_GE(log_sqnr("fp16 against float", exact, got), 40.0);
  const auto qdq = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kQdq, prompt);
  EXPECT_GE(log_sqnr("fp16 against its reference", qdq, got), 40.0);
}

TEST(Emulator, SixteenBitKeysAreNoWorseThanEight) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const auto checkpoint = test::golden_dir("qwen3");
  const auto prompt = prompt_of("qwen3");
  const auto exact = test::phase_logits({}, checkpoint, Phase::kFloat, prompt);
  std::map<KvFormat, double> quality;
  for (const KvFormat kv : {KvFormat::kU8, KvFormat::kU16}) {
    CompileOptions options = test::npu_options("w8");
    options.kv = kv;
    EXPECT_EQ(test::must_compile(checkpoint, folder / "x.tdm", options).kv, kv);
    const auto artifact = Artifact::open(folder / "x.tdm");
    const ir::Graph& decode = artifact->header().methods[0];
    EXPECT_EQ(decode.at(*decode.find("k_cache.0.0")).dtype, kv_dtype(kv));
    const auto got = test::device_logits(folder / "x.tdm", prompt);
    const auto qdq = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kQdq, prompt);
    EXPECT_GE(log_sqnr(kv == KvFormat::kU8 ? "u8" : "u16", qdq, got), kDeviceNoise);
    quality[kv] = log_sqnr(kv == KvFormat::kU8 ? "u8 against float" : "u16 against float", exact, got);
  }
  EXPECT_GE(quality[KvFormat::kU16], quality[KvFormat::kU8] - 0.5);
}

TEST(Emulator, AllFormsOfAttentionComputeTheSame) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const auto checkpoint = test::golden_dir("qwen3");
  // Long enough for a prefill call and decoding after it.
  auto prompt = test::golden_prompt("qwen3");
  while (prompt.size() < 44) prompt.push_back(prompt[prompt.size() / 2]);
  prompt.resize(44);
  const auto exact = test::phase_logits({}, checkpoint, Phase::kFloat, prompt);
  std::optional<double> noise;
  for (const AttentionForm& form : all_attention_forms()) {
    const std::string name = attention_form_name(form);
    CompileOptions options = test::npu_options("w8");
    options.backend["attention"] = attention_form_name(form);
    options.backend["shards"] = "2";
    options.prefill = {32};
    test::must_compile(checkpoint, folder / "x.tdm", options);
    const auto got = test::device_logits(folder / "x.tdm", prompt);
    const auto qdq = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kQdq, prompt);
    EXPECT_GE(log_sqnr(name + ", against its reference", qdq, got), kDeviceNoise);
    const double quality = log_sqnr(name + ", against float", exact, got);
    if (!noise) noise = quality;
    EXPECT_GE(quality, *noise - 2.0);
  }
}

// With heads together, apart, and grouped, in decode and prefill; the demo's have 64 entries.
TEST(Emulator, RotatedKeys) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const auto checkpoint = test::demo_dir();
  std::vector<int32_t> prompt;
  for (int32_t i = 0; i < 44; ++i) prompt.push_back(5 + 37 * i % 2000);
  const auto exact = test::phase_logits({}, checkpoint, Phase::kFloat, prompt);
  const auto quality_of = [&](bool rotate, const std::string& form) {
    SCOPED_TRACE(form);
    CompileOptions options = test::npu_options(rotate ? R"({"base": "w8", "rotate": ["r3"]})" : "w8", {32});
    if (!form.empty()) options.backend["attention"] = form;
    test::must_compile(checkpoint, folder / "x.tdm", options);
    const auto artifact = Artifact::open(folder / "x.tdm");
    EXPECT_TRUE(artifact.ok());
    for (const ir::Graph& method : artifact->header().methods) {
      EXPECT_EQ(std::ranges::count(method.ops, ir::OpKind::kHadamard, &ir::Op::kind) > 0, rotate) << method.name;
    }
    const auto got = test::device_logits(folder / "x.tdm", prompt);
    const auto qdq = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kQdq, prompt);
    EXPECT_GE(log_sqnr(form + (rotate ? " rotated" : " as it is"), qdq, got), kDeviceNoise);
    return log_sqnr("against float", exact, got);
  };
  const double as_it_is = quality_of(false, {});
  for (const char* form : {"", "mha", "gqa", "sha"}) EXPECT_GE(quality_of(true, form), as_it_is - 1.0);
}

// An LM head in four bits whose largest logits the CPU recomputes; with a factor (Granite) and a cap (Gemma 2).
TEST(Emulator, TheBestLogitsAreRescored) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  constexpr int64_t kCandidates = 64;
  for (const char* family : {"qwen3", "granite3_3", "gemma2"}) {
    SCOPED_TRACE(family);
    const auto checkpoint = test::golden_dir(family);
    const auto prompt = prompt_of(family);
    const auto vocabulary = static_cast<size_t>(test::OpenedModel(checkpoint).plan().vocab_size);
    // kMaxRescore covers all of these small vocabularies: an LM head in eight bits.
    std::map<int, std::vector<float>> logits;
    for (const int rescore : {1, static_cast<int>(kCandidates), kMaxRescore}) {
      CompileOptions options = test::npu_options("w8");
      options.head = WeightSpec();
      options.rescore = rescore;
      options.backend["shards"] = "2";
      test::must_compile(checkpoint, folder / "x.tdm", options);
      const auto artifact = Artifact::open(folder / "x.tdm");
      ASSERT_TRUE(artifact.ok());
      const ir::Graph& decode = artifact->header().methods[0];
      EXPECT_EQ(decode.ops.back().kind, ir::OpKind::kRescore);
      EXPECT_EQ(decode.at(*decode.find("head")).format, WeightFormat::kLpbq4);
      logits[rescore] = test::device_logits(folder / "x.tdm", prompt);
      const auto qdq = test::phase_logits(folder / "x.tdm", checkpoint, Phase::kQdq, prompt);
      EXPECT_GE(log_sqnr(family, qdq, logits[rescore]), kNoiseOfFourLayers);
    }
    const std::vector<float>& all = logits[kMaxRescore];
    for (size_t row = 0; row < prompt.size(); ++row) {
      const auto equal = [&](const std::vector<float>& some) {
        int64_t count = 0;
        for (size_t i = row * vocabulary; i < (row + 1) * vocabulary; ++i) count += some[i] == all[i] ? 1 : 0;
        return count;
      };
      EXPECT_GE(equal(logits[kCandidates]), kCandidates) << "row " << row;
      EXPECT_LT(equal(logits[1]), kCandidates) << "row " << row;
    }
    const double few = log_sqnr("1 rescored, against all", all, logits[1]);
    EXPECT_GE(log_sqnr("64 rescored, against all", all, logits[kCandidates]), few);
  }
}

TEST(Emulator, TracesAreOutputsOfTheFile) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  CompileOptions options = test::npu_options("w8");
  options.backend["trace"] = "true";
  options.backend["shards"] = "2";
  test::must_compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
  const auto artifact = Artifact::open(folder / "x.tdm");
  ASSERT_TRUE(artifact.ok());
  for (const ir::Graph& method : artifact->header().methods) {
    for (const char* name : {"layers.0.mlp.residual", "layers.1.mlp.residual"}) {
      EXPECT_EQ(method.at(*method.find(name)).role, ir::TensorRole::kOutput);
    }
  }
  EXPECT_FALSE(test::device_logits(folder / "x.tdm", prompt_of("qwen3")).empty());
}

// The model that users see first.
TEST(Emulator, TheDemoTellsTheReferencesStory) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  CompileOptions options = test::npu_options("w4", {32});
  options.context = 128;
  test::must_compile(test::demo_dir(), folder / "demo.tdm", options);
  const auto engine = test::load_npu(folder / "demo.tdm");
  ASSERT_NE(engine, nullptr);
  const std::vector<Message> messages = {{"user", "Tell me a story about a fox named Leo."}};
  const auto prompt = *engine->encode_chat(messages, true);
  const auto tokens = test::greedy(*test::new_session(*engine), prompt, 8);
  TestedModelOptions qdq;
  qdq.phase = Phase::kQdq;
  qdq.engine.threads = 2;
  qdq.checkpoint = test::demo_dir();
  auto reference = TestedModel::open(folder / "demo.tdm", qdq);
  ASSERT_TRUE(reference.ok()) << reference.error().message;
  const auto expected = (*reference)->generate_greedy(prompt, 8);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  EXPECT_EQ(tokens, *expected);
  std::printf("[ says     ] %s\n", engine->decode(tokens, true)->c_str());
}

// For a phone: prefill and decode share one set of weights.
TEST(Device, SharedWeightsAreThereOnce) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  CompileOptions options = test::npu_options("w4", {32});
  options.context = 512;
  options.backend["emulator"] = "false";
  const auto hybrid = test::must_compile(test::demo_dir(), folder / "hybrid.tdm", options);
  options.prefill = {};
  const auto kv = test::must_compile(test::demo_dir(), folder / "kv.tdm", options);
  EXPECT_TRUE(hybrid.one_weight_set);
  const auto binaries = [](const std::filesystem::path& file) {
    const auto artifact = Artifact::open(file);
    EXPECT_TRUE(artifact.ok());
    EXPECT_EQ(artifact->header().device.weight_shared, artifact->header().methods.size() > 1);
    EXPECT_EQ(artifact->header().device.arch, 79);
    uint64_t bytes = 0;
    for (const Shard& shard : artifact->header().shards) bytes += shard.binary.size;
    return static_cast<double>(bytes);
  };
  const double ratio = binaries(folder / "hybrid.tdm") / binaries(folder / "kv.tdm");
  std::printf("[ size     ] prefill and decode: %.3f x decode alone\n", ratio);
  EXPECT_LE(ratio, 1.1);
  const auto engine = Engine::load(folder / "hybrid.tdm", test::npu_engine_options());
  ASSERT_FALSE(engine.ok()) << "the x86 library would crash";
  EXPECT_HAS(engine.error().message, "share their weights");
  EXPECT_HAS(engine.error().message, "`emulator`");
}

// The encodings of one compile, reused for the next, give the same file.
TEST(Encodings, ExportedAndImportedGiveTheSameFile) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  CompileOptions options = test::npu_options("w8");
  options.calibration.export_encodings = folder / "encodings.json";
  options.calibration.report = folder / "report.html";
  test::must_compile(test::golden_dir("qwen3"), folder / "a.tdm", options);
  EXPECT_GT(std::filesystem::file_size(folder / "report.html"), 1000u);
  options = test::npu_options("w8");
  options.calibration.import_encodings = folder / "encodings.json";
  test::must_compile(test::golden_dir("qwen3"), folder / "b.tdm", options);
  EXPECT_TRUE(test::same_but_for_calibration(folder / "a.tdm", folder / "b.tdm"));
  const size_t before = folder.entries();
  const auto other = compile(test::golden_dir("qwen2_5"), folder / "c.tdm", options);
  ASSERT_FALSE(other.ok());
  EXPECT_HAS(other.error().message, "calibrate this model anew");
  EXPECT_FALSE(std::filesystem::exists(folder / "c.tdm"));
  // A work folder that could be resumed would contain the encodings that were refused.
  EXPECT_EQ(folder.entries(), before);
  test::write_file(folder / "encodings.json", "{\"version\": ");
  EXPECT_FALSE(compile(test::golden_dir("qwen3"), folder / "c.tdm", options).ok());
}

}  // namespace emulator_test
}  // namespace tandem
