// Files for an NPU and a CPU: each program is what a file of its own would have, and the engine falls back.
#include <gtest/gtest.h>

#include <algorithm>

#include "backends/qnn/compile/npu_support.h"
#include "tandem/probe.h"

namespace tandem {
namespace several_targets_npu_test {

namespace fs = std::filesystem;

class NpuAndCpu : public testing::Test {
 protected:
  static CompileOptions options(const std::string& targets) {
    CompileOptions options = test::npu_options("w8");
    options.target = targets;
    if (targets == "cpu") options.backend.clear();
    return options;
  }
  fs::path compile_for(const std::string& targets) {
    const fs::path path = folder_ / (targets + ".tdm");
    report_ = test::must_compile(checkpoint_, path, options(targets));
    return path;
  }
  std::shared_ptr<Engine> load(const fs::path& file, const std::string& run_on, const std::string& libraries = {}) {
    EngineOptions engine_options = test::npu_engine_options();
    engine_options.run_on = run_on;
    engine_options.verify = VerifyWeights::kAtLoad;
    if (!libraries.empty()) engine_options.backend["qnn-libs"] = libraries;
    engine_options.log = [this](LogLevel level, std::string_view message) {
      if (level == LogLevel::kWarning) warnings_.emplace_back(message);
    };
    auto engine = Engine::load(file, engine_options);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    return engine.ok() ? *engine : nullptr;
  }
  std::vector<float> logits(const fs::path& file, const std::string& run_on) {
    const auto engine = load(file, run_on);
    return engine == nullptr ? std::vector<float>() : test::score(*test::new_session(*engine), prompt_);
  }

  const test::TempFolder folder_;
  const fs::path checkpoint_ = test::golden_dir("qwen3");
  const std::vector<int32_t> prompt_ = {1, 5, 9, 30, 20, 7, 11, 12, 13, 3};
  CompileReport report_;
  std::vector<std::string> warnings_;
};

TEST_F(NpuAndCpu, EachProgramComputesWhatAFileOfItsOwnDoes) {
  TANDEM_NEEDS_QNN();
  const fs::path both = compile_for("sm8750,cpu");
  ASSERT_EQ(report_.programs.size(), 2u);
  EXPECT_EQ(report_.programs[0].kv, KvFormat::kU8);
  EXPECT_EQ(report_.programs[1].kv, KvFormat::kFp16) << "each target resolves what the recipe leaves open";
  const fs::path npu = compile_for("sm8750"), cpu = compile_for("cpu");
  EXPECT_TRUE(logits(both, "") == logits(npu, "")) << "on the emulator";
  EXPECT_TRUE(logits(both, "qnn") == logits(npu, ""));
  EXPECT_TRUE(logits(both, "cpu") == logits(cpu, ""));
  EXPECT_TRUE(warnings_.empty());
  const auto one = Artifact::open(cpu), two = Artifact::open(both);
  EXPECT_EQ(two->program(1).header().methods, one->header().methods);
  EXPECT_LT(fs::file_size(both), fs::file_size(npu) + fs::file_size(cpu));
}

TEST_F(NpuAndCpu, WithoutTheLibraryTheCpuTakesOver) {
  TANDEM_NEEDS_QNN();
  const fs::path both = compile_for("sm8750,cpu");
  const auto engine = load(both, "", "/nonexistent");
  ASSERT_NE(engine, nullptr);
  EXPECT_EQ(engine->target(), "cpu");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_HAS(warnings_[0], "runs on cpu and not on sm8750");
  EXPECT_HAS(warnings_[0], "/nonexistent");
  EngineOptions probed = test::npu_engine_options();
  probed.backend["qnn-libs"] = "/nonexistent";
  const auto report = probe(both, probed);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->usable);
  EXPECT_FALSE(report->backends[0].usable);
  EXPECT_TRUE(report->backends[1].usable);
  // A shard that is damaged is the NPU's business alone.
  auto bytes = test::read_file(both);
  const auto artifact = Artifact::open(both);
  const Shard& shard = artifact->header().shards[0];
  bytes[artifact->header().segments[shard.binary.segment].offset + shard.binary.size / 2] ^= 1;
  test::write_file(folder_ / "damaged.tdm", bytes);
  warnings_.clear();
  const auto rescued = load(folder_ / "damaged.tdm", "");
  ASSERT_NE(rescued, nullptr);
  EXPECT_EQ(rescued->target(), "cpu");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_HAS(warnings_[0], "is damaged");
}

// Keys and values are u8 in the NPU's cache and fp16 in the CPU's: the CPU continues with what the NPU rounded.
TEST_F(NpuAndCpu, ThePromptOnTheNpuAndTokensOnTheCpu) {
  TANDEM_NEEDS_QNN();
  const fs::path both = compile_for("sm8750,cpu");
  const auto continued = [&](const std::string& run_on, const std::string& decode_on) {
    EngineOptions engine_options = test::npu_engine_options();
    engine_options.run_on = run_on;
    engine_options.decode_on = decode_on;
    auto engine = Engine::load(both, engine_options);
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    std::vector<float> rows;
    if (!engine.ok()) return rows;
    const auto session = test::new_session(**engine);
    const auto score = [&](std::vector<int32_t> tokens) {
      const std::vector<float> more = test::score(*session, tokens);
      if (tokens.size() == 1) rows.insert(rows.end(), more.begin(), more.end());
    };
    score(prompt_);
    for (const int32_t token : {8, 2, 17, 40}) score({token});
    score({21, 22, 23});  // The NPU needs the rows that the CPU computed.
    for (const int32_t token : {24, 25}) score({token});
    return rows;
  };
  const std::vector<float> cpu = continued("cpu", ""), npu = continued("", ""), together = continued("", "cpu");
  const double to_cpu = test::sqnr_db(cpu, together), npu_to_cpu = test::sqnr_db(cpu, npu);
  std::printf("[ measured ] against the CPU alone: %.1f dB, the NPU alone %.1f dB\n", to_cpu, npu_to_cpu);
  EXPECT_GE(to_cpu, 20.0);
  EXPECT_GE(to_cpu, npu_to_cpu - 1.0) << "less of it is rounded";
  EXPECT_FALSE(together == npu) << "the CPU computed the tokens";
  EXPECT_FALSE(together == cpu) << "the NPU computed the prompts";
  // Without the NPU's library, the CPU does everything.
  EngineOptions alone = test::npu_engine_options();
  alone.backend["qnn-libs"] = "/nonexistent";
  alone.decode_on = "cpu";
  const auto engine = Engine::load(both, alone);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_EQ((*engine)->target(), "cpu");
  // And where only the CPU works for prompts, the NPU is not needed for tokens.
  alone.run_on = "cpu";
  alone.decode_on = "sm8750";
  std::vector<std::string> warnings;
  alone.log = [&](LogLevel, std::string_view message) { warnings.emplace_back(message); };
  ASSERT_TRUE(Engine::load(both, alone).ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_HAS(warnings[0], "tokens are decoded on cpu too and not on sm8750");
}

TEST_F(NpuAndCpu, TwoChipsAndACpu) {
  TANDEM_NEEDS_QNN();
  CompileOptions three = options("sm8750,sm8650,cpu");
  three.prefill.clear();
  // The embedding is the CPU's part of an NPU's program, and both chips' have it.
  three.recipe = test::parse_recipe("w8");
  three.head = WeightSpec{};
  const fs::path file = folder_ / "three.tdm";
  const CompileReport report = test::must_compile(checkpoint_, file, three);
  ASSERT_EQ(report.programs.size(), 3u);
  const auto artifact = Artifact::open(file);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_EQ(artifact->program(0).header().device.arch, 79);
  EXPECT_EQ(artifact->program(1).header().device.arch, 75);
  EXPECT_TRUE(artifact->program(2).header().shards.empty());
  ASSERT_FALSE(artifact->program(0).header().weights.empty());
  EXPECT_EQ(artifact->program(0).header().weights, artifact->program(1).header().weights) << "stored once";
  EXPECT_EQ(load(file, "")->target(), "sm8750");
  EXPECT_EQ(load(file, "cpu")->target(), "cpu");
}

TEST_F(NpuAndCpu, AFailureOfTheSecondKeepsTheFirst) {
  TANDEM_NEEDS_QNN();
  const fs::path output = folder_ / "model.tdm";
  CompileOptions crashing = options("cpu,sm8750");
  crashing.backend["qnn-worker"] = test::write_script(folder_ / "worker", "kill -SEGV $$\n");
  const auto crashed = compile(checkpoint_, output, crashing);
  ASSERT_FALSE(crashed.ok());
  EXPECT_HAS(crashed.error().message, "signal 11");
  EXPECT_FALSE(fs::exists(output));
  EXPECT_TRUE(fs::is_directory(folder_ / "model.tdm.cpu.work"));
  const CompileReport report = test::must_compile(checkpoint_, output, options("cpu,sm8750"));
  EXPECT_GT(report.programs[0].segments_reused, 3u);
  EXPECT_EQ(report.programs[1].segments_reused, 1u) << "the encodings";
  EXPECT_FALSE(fs::exists(folder_ / "model.tdm.cpu.work"));
  EXPECT_FALSE(fs::exists(folder_ / "model.tdm.sm8750.work"));
  EXPECT_EQ(load(output, "")->target(), "cpu");
  EXPECT_EQ(load(output, "sm8750")->target(), "sm8750");
}

}  // namespace several_targets_npu_test
}  // namespace tandem
