// What cannot be compiled: an error that names it, before any work where possible, and nothing left behind.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <map>

#include "artifact/writer.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace errors_test {

namespace fs = std::filesystem;
using test::TempFolder;

class CompileErrors : public testing::Test {
 protected:
  // The error message of compiling.
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

// The contents of a folder.
std::map<fs::path, std::string> contents(const fs::path& folder) {
  std::map<fs::path, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const auto bytes = test::read_file(entry.path());
    files[entry.path()] = std::string(bytes.begin(), bytes.end());
  }
  return files;
}

TEST_F(CompileErrors, NoInputIsWrittenOver) {
  const fs::path checkpoint = folder_ / "checkpoint";
  test::copy_checkpoint(test::golden_dir("qwen3"), checkpoint);
  fs::create_symlink("checkpoint/model.safetensors", folder_ / "link.tdm");
  fs::create_hard_link(checkpoint / "model.safetensors", folder_ / "hard.tdm");
  test::write_file(folder_ / "recipe.json", std::string_view("{}"));
  const auto before = contents(folder_.path());
  for (const bool force : {false, true}) {
    CompileOptions wrong = options();
    wrong.force = force;
    wrong.other_inputs = {folder_ / "recipe.json"};
    for (const char* output : {"checkpoint/model.safetensors", "checkpoint/config.json", "link.tdm", "hard.tdm",
                               "checkpoint/../checkpoint/model.safetensors", "recipe.json"}) {
      SCOPED_TRACE(output);
      EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument, checkpoint, folder_ / output), "files that are read");
    }
  }
  EXPECT_TRUE(contents(folder_.path()) == before);
}

// Even if the checkpoint's folder has links, as a hub's cache does.
TEST_F(CompileErrors, NoInputIsWrittenOverThroughTheLinksOfACache) {
  test::copy_checkpoint(test::golden_dir("qwen3"), folder_ / "blobs");
  fs::create_directory(folder_ / "snapshot");
  for (const auto& entry : fs::directory_iterator(folder_ / "blobs")) {
    fs::create_symlink(entry.path(), folder_ / "snapshot" / entry.path().filename());
  }
  CompileOptions wrong = options();
  wrong.force = true;
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument, folder_ / "snapshot", folder_ / "blobs/model.safetensors"),
             "files that are read");
}

TEST_F(CompileErrors, NoForeignFileIsWrittenOver) {
  test::write_file(folder_ / "x.tdm", std::string_view("my notes"));
  EXPECT_HAS(error_of(options(), ErrorCode::kInvalidArgument), "not a compiled file");
  EXPECT_HAS(error_of(options(), ErrorCode::kInvalidArgument), "`force`");
  fs::create_symlink(folder_ / "elsewhere", folder_ / "link.tdm");
  EXPECT_HAS(error_of(options(), ErrorCode::kInvalidArgument, test::golden_dir("qwen3"), folder_ / "link.tdm"),
             "symbolic link");
  EXPECT_EQ(test::read_file(folder_ / "x.tdm").size(), 8u);
  // Our own files are replaced, and with force any file; a link is removed, its target stays.
  CompileOptions forced = options();
  forced.force = true;
  fs::create_symlink(folder_ / "x.tdm", folder_ / "to-x.tdm");
  ASSERT_TRUE(compile(test::golden_dir("qwen3"), folder_ / "to-x.tdm", forced).ok());
  EXPECT_EQ(test::read_file(folder_ / "x.tdm").size(), 8u);
  ASSERT_TRUE(compile(test::golden_dir("qwen3"), folder_ / "x.tdm", forced).ok());
  ASSERT_TRUE(compile(test::golden_dir("qwen3"), folder_ / "x.tdm", options()).ok());
}

// Even next to the checkpoint, repeatedly.
TEST_F(CompileErrors, AFileMayLieBesideItsCheckpoint) {
  test::copy_checkpoint(test::golden_dir("qwen3"), folder_ / "checkpoint");
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(compile(folder_ / "checkpoint", folder_ / "checkpoint/x.tdm", options()).ok());
  }
}

TEST_F(CompileErrors, DevicesAndPipesAreRefusedBeforeAnyWork) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  CompileOptions watched = options();
  watched.progress = [](const Progress&) { ADD_FAILURE() << "work was done"; };
  for (const fs::path& output : {fs::path("/dev/null"), fs::path("/dev/full"), folder_ / "pipe"}) {
    watched.force = !watched.force;
    EXPECT_HAS(error_of(watched, ErrorCode::kInvalidArgument, test::golden_dir("qwen3"), output), output.string());
  }
  EXPECT_FALSE(fs::exists("/dev/null.work"));
}

TEST_F(CompileErrors, MoreMethodsThanAFileCanHave) {
  CompileOptions wrong = options();
  wrong.context = 128;
  wrong.prefill.clear();
  for (int64_t i = 2; i < 66; ++i) wrong.prefill.push_back(i);
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "64");
  // With one less, the file opens.
  wrong.prefill.pop_back();
  ASSERT_TRUE(compile(test::golden_dir("qwen3"), folder_ / "most.tdm", wrong).ok());
  EXPECT_NE(test::load_engine(folder_ / "most.tdm"), nullptr);
}

// Anything that the reader refuses: here a name that is too long.
TEST_F(CompileErrors, WhatTheReaderRefusesTheWriterRefusesFirst) {
  ArtifactHeader header;
  header.target = header.backend = "cpu";
  const Status status = check_header(header, {{std::string(600, 'x'), 64}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_HAS(status.error().message, "600");
}

// It would fail again, so finished work is useless.
TEST_F(CompileErrors, ACompileThatCannotSucceedLeavesNothing) {
  test::copy_checkpoint(test::golden_dir("qwen3"), folder_ / "checkpoint");
  const std::vector<float> bad(4, std::nanf(""));
  ASSERT_TRUE(test::overwrite_tensor(folder_ / "checkpoint", "model.layers.1.mlp.down_proj.weight", bad));
  EXPECT_HAS(error_of(options(), ErrorCode::kCorrupt, folder_ / "checkpoint", folder_ / "x.tdm"), "layers.1");
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
      {"`emulator`", [](CompileOptions& o) { o.backend["emulator"] = "true"; }},
      {"`unshared`", [](CompileOptions& o) { o.backend["unshared"] = "true"; }},
      {"`attention`", [](CompileOptions& o) { o.backend["attention"] = "mha"; }},
      {"`trace`", [](CompileOptions& o) { o.backend["trace"] = "true"; }},
      {"`calibration.samples`", [](CompileOptions& o) { o.calibration.samples = 2; }},
      {"`calibration.import_encodings`", [](CompileOptions& o) { o.calibration.import_encodings = "e.json"; }},
      {"`calibration.report`", [](CompileOptions& o) { o.calibration.report = "r.html"; }}};
  for (const auto& [flag, set] : cases) {
    CompileOptions wrong = options();
    set(wrong);
    EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), flag);
  }
}

// A text is read only if the recipe leaves activations open.
TEST_F(CompileErrors, ATextForACpu) {
  CompileOptions wrong = options();
  wrong.calibration.prompt = "Once upon a time";
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "`activations` auto");
  wrong.activations = ActivationFormat::kInt16;
  error_of(wrong, ErrorCode::kInvalidArgument);
  wrong.activations = ActivationFormat::kAuto;
  EXPECT_HAS(error_of(wrong, ErrorCode::kUnsupported), "tokenizer");  // The golden checkpoint has none.
  wrong.calibration.method_given = true;
  EXPECT_HAS(error_of(wrong, ErrorCode::kInvalidArgument), "`calibration.range`");
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
        // The segments before it may be kept: once the weight is fixed, a run can resume.
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

}  // namespace errors_test
}  // namespace tandem
