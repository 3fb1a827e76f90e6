// Files for the back end `reference`, run by the engine like any other file.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "bench/benchmark.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"

namespace tandem {
namespace reference_backend_test {

class ReferenceBackend : public ::testing::Test {
 protected:
  std::filesystem::path compile_for(const std::string& target, const std::filesystem::path& checkpoint,
                                    const std::string& recipe) {
    const auto path = folder_ / (target + ".tdm");
    CompileOptions options = test::to_options({.checkpoint = checkpoint, .recipe = recipe});
    options.target = target;
    const auto report = compile(checkpoint, path, options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    return path;
  }

  test::TempFolder folder_;
};

TEST_F(ReferenceBackend, GreedyTokensEqualHuggingFace) {
  for (const char* family : {"qwen3", "gemma3", "phi4_mini"}) {
    SCOPED_TRACE(family);
    const Json golden = test::golden_json(family);
    const auto prompt = golden["greedy"]["prompt"].get<std::vector<int32_t>>();
    const auto expected = golden["greedy"]["new_tokens"].get<std::vector<int32_t>>();
    const auto file = compile_for("reference", test::golden_dir(family), "fp32");
    EXPECT_EQ(test::greedy_file(file, prompt, static_cast<int64_t>(expected.size())), expected);
  }
}

TEST_F(ReferenceBackend, GreedyTokensOfTheDemoEqualTheCpuAndTheFloatReference) {
  const std::vector<int32_t> prompt = {1, 404, 1055, 17, 230};
  constexpr int64_t kCount = 12;
  const auto reference = compile_for("reference", test::demo_dir(), "fp32");
  EXPECT_EQ(Artifact::open(reference)->header().backend, "reference");
  const auto tokens = test::greedy_file(reference, prompt, kCount);
  EXPECT_EQ(tokens.size(), static_cast<size_t>(kCount));
  EXPECT_EQ(tokens, test::greedy_file(compile_for("cpu", test::demo_dir(), "fp32"), prompt, kCount));
  // The checkpoint itself, by the interpreter.
  TestedModelOptions options;
  options.context = 64;
  const auto model = TestedModel::open(test::demo_dir(), options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  std::vector<int32_t> sequence = prompt, expected;
  sequence.insert(sequence.end(), tokens.begin(), tokens.end());
  const Status status = (*model)->score(sequence, [&](size_t, std::span<const float> logits) {
    expected.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    return ok_status();
  });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(tokens, std::vector<int32_t>(expected.begin() + 4, expected.begin() + 4 + kCount));
}

// The same recipe, so the same weights: what differs is how the two back ends round activations.
TEST_F(ReferenceBackend, QuantizedLogitsAreNearTheCpus) {
  const auto prompt = test::golden_prompt("qwen3");
  const auto cpu = test::score_file(compile_for("cpu", test::golden_dir("qwen3"), "w4"), prompt);
  const auto reference = test::score_file(compile_for("reference", test::golden_dir("qwen3"), "w4"), prompt);
  EXPECT_GE(test::sqnr_db(reference, cpu), 40.0);
}

TEST_F(ReferenceBackend, IsMeasuredLikeAnyOther) {
  const auto file = compile_for("reference", test::golden_dir("qwen3"), "w8");
  BenchmarkOptions options;
  options.prompt_tokens = 8;
  options.new_tokens = 2;
  options.repeats = 1;
  options.engine.threads = 2;
  const auto report = run_benchmark(file, options, {});
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(report->isa, "reference");
  EXPECT_EQ(report->int8_operations_per_second, 0.0) << "there is no such limit";
  EXPECT_GT(report->decode_tokens_per_second, 0.0);
  // The phase qdq reads the weights of the file itself.
  TestedModelOptions qdq;
  qdq.phase = Phase::kQdq;
  EXPECT_TRUE(TestedModel::open(file, qdq).ok());
}

TEST_F(ReferenceBackend, RefusesOptionsOfNpus) {
  CompileOptions options = test::to_options({.recipe = "w8"});
  options.target = "reference";
  options.backend["emulator"] = "true";
  const auto report = compile(test::golden_dir("qwen3"), folder_ / "x.tdm", options);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find("`emulator` is for NPU targets"), std::string::npos) << report.error().message;
}

}  // namespace reference_backend_test
}  // namespace tandem
