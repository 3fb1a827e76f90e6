// What cannot be compiled: one sentence that names it, before any work where that is possible, and nothing left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

class CompileErrors : public testing::Test {
 protected:
  // The message of the error that compiling gives.
  std::string error_of(const CompileOptions& options, ErrorCode code, const fs::path& checkpoint,
                       const fs::path& output) {
    const size_t before = folder_.entries();
    const auto report = compile(checkpoint, output, options);
    EXPECT_FALSE(report.ok());
    if (report.ok()) return {};
    EXPECT_EQ(report.error().code, code) << report.error().message;
    EXPECT_EQ(folder_.entries(), before) << "something was left behind";
    EXPECT_EQ(report.error().message.find('\n'), std::string::npos) << "more than one line";
    return report.error().message;
  }
  std::string error_of(const CompileOptions& options, ErrorCode code) {
    return error_of(options, code, test::golden_dir("qwen3"), folder_ / "x.tdm");
  }
  static CompileOptions options() { return test::to_options({}); }

  const TempFolder folder_;
};

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(CompileErrors, OutputFolders) {
  EXPECT_HAS(error_of(options(), ErrorCode::kInvalidArgument, test::golden_dir("qwen3"), folder_ / "no/x.tdm"), "/no");
  fs::create_directory(folder_ / "here");
  EXPECT_HAS(error_of(options(), ErrorCode::kInvalidArgument, test::golden_dir("qwen3"), folder_ / "here"), "folder");
  if (::geteuid() != 0) {
    ::chmod((folder_ / "here").c_str(), 0555);
    EXPECT_HAS(error_of(options(), ErrorCode::kIo, test::golden_dir("qwen3"), folder_ / "here/x.tdm"), "here");
  }
}

TEST_F(CompileErrors, Checkpoints) {
  EXPECT_HAS(error_of(options(), ErrorCode::kNotFound, folder_ / "absent", folder_ / "x.tdm"), "absent");
  test::copy_checkpoint(test::golden_dir("llama2"), folder_ / "mixtral");
  test::write_file(folder_ / "mixtral/config.json",
                   R"({"architectures": ["MixtralForCausalLM"], "vocab_size": 256, "hidden_size": 64, "n_layer": 2,
                       "n_head": 4, "intermediate_size": 172, "n_positions": 256, "rms_norm_eps": 1e-5})");
  EXPECT_HAS(error_of(options(), ErrorCode::kUnsupported, folder_ / "mixtral", folder_ / "x.tdm"), "Mixtral");
  fs::create_directory(folder_ / "empty");
  EXPECT_HAS(error_of(options(), ErrorCode::kNotFound, folder_ / "empty", folder_ / "x.tdm"), "empty");
  CompileOptions wrong = options();
  wrong.config_name = "config.v6.json";
  EXPECT_HAS(error_of(wrong, ErrorCode::kNotFound), "config.v6.json");
}

TEST_F(CompileErrors, Lengths) {
  CompileOptions wrong = options();
  wrong.prefill = {8, 65};
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "65");
  wrong.prefill = {0};
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "0");
  wrong.prefill = {-8};
  error_of(wrong, ErrorCode::kInvalidArgument);
  wrong.prefill = {int64_t{1} << 40};
  error_of(wrong, ErrorCode::kInvalidArgument);
  wrong = options();
  wrong.context = 257;
  const std::string message = error_of(wrong, ErrorCode::kInvalidArgument);
  EXPECT_HAS(message, "257");
  EXPECT_HAS(message, "256");
  wrong.context = -1;
  error_of(wrong, ErrorCode::kInvalidArgument);
}

TEST_F(CompileErrors, Targets) {
  CompileOptions wrong = options();
  wrong.target = "abacus";
  const std::string message = error_of(wrong, ErrorCode::kInvalidArgument);
  EXPECT_HAS(message, "abacus");
  EXPECT_HAS(message, "cpu");
}

TEST_F(CompileErrors, OptionsOfNpusAreNotForACpu) {
  const std::pair<const char*, void (*)(CompileOptions&)> cases[] = {
      {"--emulator", [](CompileOptions& o) { o.npu.emulator = true; }},
      {"--unshared", [](CompileOptions& o) { o.npu.share_weights = false; }},
      {"--split-heads", [](CompileOptions& o) { o.npu.split_heads = true; }},
      {"--trace", [](CompileOptions& o) { o.npu.trace = true; }},
      {"--calib-samples", [](CompileOptions& o) { o.calibration.samples = 2; }},
      {"--encodings", [](CompileOptions& o) { o.calibration.import_encodings = "e.json"; }},
      {"--report", [](CompileOptions& o) { o.calibration.report = "r.html"; }}};
  for (const auto& [flag, set] : cases) {
    CompileOptions wrong = options();
    set(wrong);
    EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), flag);
  }
}

// A text is read for activations that are left open, and then only.
TEST_F(CompileErrors, ATextForACpu) {
  CompileOptions wrong = options();
  wrong.calibration.prompt = "Once upon a time";
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "--activations auto");
  wrong.activations = ActivationFormat::kInt16;
  error_of(wrong, ErrorCode::kInvalidArgument);
  wrong.activations = ActivationFormat::kAuto;
  EXPECT_HAS(error_of(wrong, ErrorCode::kUnsupported), "tokenizer");  // The golden checkpoint has none.
  wrong.calibration.method_given = true;
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "--calib-range");
}

TEST_F(CompileErrors, ARuleThatMatchesNothingIsAWarning) {
  CompileOptions misspelt = options();
  misspelt.recipe = test::parse_recipe(R"({"base": "w4", "rules": [{"match": "layers.*.mlp.dwon", "format": "int8"},
                                                     {"match": "layers.*.mlp.down", "format": "int8"}]})");
  const auto report = compile(test::demo_dir(), folder_ / "x.tdm", misspelt);
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_EQ(report->warnings.size(), 1u);
  EXPECT_HAS(report->warnings[0], "layers.*.mlp.dwon");
}

TEST_F(CompileErrors, WeightsThatAreNotNumbers) {
  for (const char* tensor :
       {"model.layers.1.mlp.up_proj.weight", "model.layers.1.input_layernorm.weight", "model.embed_tokens.weight"}) {
    for (const float value : {NAN, INFINITY}) {
      for (const char* recipe : {"w4", "w8", "fp16", "fp32"}) {
        SCOPED_TRACE(std::string(tensor) + " " + recipe);
        const fs::path checkpoint = folder_ / "checkpoint";
        fs::remove_all(checkpoint);
        test::copy_checkpoint(test::golden_dir("qwen3"), checkpoint);
        ASSERT_TRUE(test::overwrite_tensor(checkpoint, tensor, std::vector<float>{1.0f, value}));
        const auto report = compile(checkpoint, folder_ / "x.tdm", test::to_options({.recipe = recipe}));
        ASSERT_FALSE(report.ok());
        // The segments before it may be kept: with the weight put right, a run can go on.
        EXPECT_FALSE(fs::exists(folder_ / "x.tdm"));
        EXPECT_EQ(report.error().message.find('\n'), std::string::npos);
        const bool is_norm = std::string_view(tensor).find("norm") != std::string_view::npos;
        const bool is_up = std::string_view(tensor).find("up_proj") != std::string_view::npos;
        EXPECT_HAS(report.error().message, is_norm ? "norm" : is_up ? "layers.1.mlp.up" : "embedding");
      }
    }
  }
}

// Integer logits need the float model's range; a model without one is refused.
TEST_F(CompileErrors, LogitsThatAreNotNumbers) {
  const fs::path checkpoint = folder_ / "checkpoint";
  test::copy_checkpoint(test::golden_dir("qwen3"), checkpoint);
  ASSERT_TRUE(test::overwrite_tensor(checkpoint, "model.norm.weight", std::vector<float>(64, 3e38f)));
  CompileOptions u16 = options();
  u16.recipe.logits = DType::kU16;
  EXPECT_HAS(error_of(u16, ErrorCode::kCorrupt, checkpoint, folder_ / "x.tdm"), "logits");
}

TEST_F(CompileErrors, ATokenizerThatIsBroken) {
  const fs::path checkpoint = folder_ / "checkpoint";
  test::copy_checkpoint(test::demo_dir(), checkpoint);
  test::write_file(checkpoint / "tokenizer.json", std::string_view("{\"model\": "));
  EXPECT_HAS(error_of(options(), ErrorCode::kCorrupt, checkpoint, folder_ / "x.tdm"), "tokenizer.json");
}

TEST_F(CompileErrors, ATruncatedCheckpoint) {
  const fs::path checkpoint = folder_ / "checkpoint";
  test::copy_checkpoint(test::golden_dir("qwen3"), checkpoint);
  fs::resize_file(checkpoint / "model.safetensors", 300'000);
  EXPECT_HAS(error_of(options(), ErrorCode::kCorrupt, checkpoint, folder_ / "x.tdm"), "model.safetensors");
}

}  // namespace
}  // namespace tandem
