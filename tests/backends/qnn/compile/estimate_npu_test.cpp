// Compiles with estimates, using Qualcomm's library: for the chip itself, and for a relative.
#include <gtest/gtest.h>

#include <fstream>

#include "backends/qnn/compile/npu_support.h"
#include "base/json.h"

namespace tandem {
namespace estimate_npu_test {

namespace fs = std::filesystem;
using test::TempFolder;

class NpuEstimate : public testing::Test {
 protected:
  static CompileOptions options(const char* target) {
    CompileOptions options = test::npu_options("w8");
    options.target = target;
    options.backend["emulator"] = "false";
    options.backend["estimate"] = "true";
    options.backend["shards"] = "2";
    options.backend["jobs"] = "1";
    return options;
  }
  Json json() const {
    const auto bytes = test::read_file(folder_ / "estimate.json");
    return Json::parse(bytes.begin(), bytes.end());
  }
  static ArtifactHeader header_of(const fs::path& file) {
    auto artifact = Artifact::open(file);
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return artifact.ok() ? artifact->header() : ArtifactHeader{};
  }
  // How often the worker was started, and the real one.
  fs::path counting_worker(const std::string& before = "") {
    return test::write_script(
        folder_ / "worker", before + "echo x >> " + (folder_ / "count").string() + "\nexec " TANDEM_WORKER " \"$@\"\n");
  }
  size_t started() const {
    size_t count = 0;
    std::ifstream file(folder_ / "count");
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

  const TempFolder folder_;
  const fs::path checkpoint_ = test::golden_dir("qwen3");
  const fs::path output_ = folder_ / "model.tdm";
};

void expect_sensible(const EstimateReport& report) {
  ASSERT_EQ(report.methods.size(), 2u);
  std::vector<const MethodEstimate*> all = {&report.methods[0], &report.methods[1], &report.lm_head};
  for (const MethodEstimate* method : all) {
    SCOPED_TRACE(method->name);
    EXPECT_EQ(method->shards.size(), method == &report.lm_head ? 1u : 2u);
    EXPECT_GT(method->total.us_lower, 0u);
    EXPECT_LE(method->total.us_lower, method->total.us);
    EXPECT_LE(method->total.us, method->total.us_upper);
    EXPECT_GT(method->total.ddr_read_bytes, 0u);
  }
  EXPECT_GT(report.tokens_per_second(), 0.0);
}

TEST_F(NpuEstimate, OfTheChipItselfComesWithTheCompile) {
  TANDEM_NEEDS_QNN();
  CompileOptions with = options("sa8255");
  with.backend["estimate-json"] = folder_ / "estimate.json";
  with.backend["qnn-worker"] = counting_worker();
  with.calibration.report = folder_ / "page.html";
  const auto report = test::must_compile(checkpoint_, output_, with);
  EXPECT_EQ(started(), 2u) << "a shard is compiled once";
  ASSERT_TRUE(report.estimates.has_value());
  expect_sensible(*report.estimates);
  EXPECT_FALSE(report.estimates->of_relative());
  EXPECT_EQ(json()["tokens_per_second"], report.estimates->tokens_per_second());
  const auto page = test::read_file(folder_ / "page.html");
  const std::string html(page.begin(), page.end());
  EXPECT_HAS(html, "Estimated speed");
  EXPECT_HAS(html, "All tensors");

  // Without estimates: the same binaries to the byte, and no metrics.
  CompileOptions without = options("sa8255");
  without.backend["estimate"] = "false";
  const auto plain = test::must_compile(checkpoint_, folder_ / "plain.tdm", without);
  EXPECT_FALSE(plain.estimates.has_value());
  const ArtifactHeader a = header_of(output_), b = header_of(folder_ / "plain.tdm");
  ASSERT_EQ(a.shards.size(), 2u);
  ASSERT_EQ(b.shards.size(), 2u);
  for (size_t i = 0; i < a.shards.size(); ++i) {
    EXPECT_EQ(a.shards[i].checksum, b.shards[i].checksum);
    EXPECT_EQ(a.shards[i].binary.size, b.shards[i].binary.size);
  }
  const auto stored = stored_estimate(a.metrics);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->methods.size(), 3u);
  EXPECT_EQ(stored->soc_model, 52u);
  EXPECT_FALSE(stored_estimate(b.metrics).has_value());
}

TEST_F(NpuEstimate, OfARelativeCompilesTheShardsAgain) {
  TANDEM_NEEDS_QNN();
  CompileOptions with = options("sm8750");
  with.backend["qnn-worker"] = counting_worker();
  std::vector<std::string> told;
  with.progress = [&](const Progress& progress) {
    told.push_back(progress.stage);
    EXPECT_LE(progress.done, progress.total);
  };
  const auto report = test::must_compile(checkpoint_, output_, with);
  EXPECT_EQ(started(), 4u);
  ASSERT_TRUE(report.estimates.has_value());
  expect_sensible(*report.estimates);
  EXPECT_EQ(report.estimates->simulated, "sa8797");
  EXPECT_EQ(report.estimates->vtcm_mb, 8) << "that of the chip that was asked for";
  EXPECT_EQ(folder_.entries(), 3u) << "something was left behind";
  EXPECT_EQ(std::ranges::count_if(told, [](const std::string& what) { return what.ends_with("on sa8797"); }), 2);
  const ArtifactHeader header = header_of(output_);
  EXPECT_EQ(header.device.soc_model, 69u) << "the binaries are for the chip that was asked for";
  EXPECT_EQ(stored_estimate(header.metrics)->soc_model, 72u);
}

TEST_F(NpuEstimate, WhatIsFinishedIsNotLost) {
  TANDEM_NEEDS_QNN();
  CompileOptions crashing = options("sm8750");
  // Both shards, and the first of the relative: the fourth process crashes.
  crashing.backend["qnn-worker"] =
      counting_worker("[ \"$(wc -l < " + (folder_ / "count").string() + " 2>/dev/null)\" = 3 ] && kill -SEGV $$\n");
  const auto failed = compile(checkpoint_, output_, crashing);
  ASSERT_FALSE(failed.ok());
  EXPECT_HAS(failed.error().message, "on sa8797");
  EXPECT_FALSE(fs::exists(output_));
  EXPECT_EQ(started(), 3u);
  CompileOptions again = options("sm8750");
  again.backend["qnn-worker"] = counting_worker();
  const auto report = test::must_compile(checkpoint_, output_, again);
  EXPECT_EQ(started(), 4u) << "one is left";
  EXPECT_EQ(report.segments_reused, 4u) << "the encodings, two shards and one estimate";
  ASSERT_TRUE(report.estimates.has_value());
  expect_sensible(*report.estimates);
}

// Shards that an earlier run finished without an estimate are recompiled; those with one are reused in either case.
TEST_F(NpuEstimate, AnEarlierRunNeedNotHaveAskedForIt) {
  TANDEM_NEEDS_QNN();
  CompileOptions crashing = options("sa8255");
  crashing.backend["estimate"] = "false";
  crashing.backend["qnn-worker"] = counting_worker("[ -e " + (folder_ / "count").string() + " ] && kill -SEGV $$\n");
  ASSERT_FALSE(compile(checkpoint_, output_, crashing).ok());
  EXPECT_EQ(started(), 1u);
  CompileOptions with = options("sa8255");
  with.backend["qnn-worker"] = counting_worker();
  const auto report = test::must_compile(checkpoint_, output_, with);
  EXPECT_EQ(started(), 3u) << "both";
  EXPECT_TRUE(report.estimates.has_value());
}

TEST_F(NpuEstimate, ReadsTheWeights) {
  TANDEM_NEEDS_QNN();
  const auto report = test::must_compile(checkpoint_, output_, options("sa8797"));
  ASSERT_TRUE(report.estimates.has_value());
  uint64_t weights = 0;
  const test::OpenedModel model(checkpoint_);
  for (const WeightSource& weight : model.plan().weights) {
    if (weight.name.starts_with("layers.")) weights += static_cast<uint64_t>(weight.rows * weight.cols);
  }
  EXPECT_GE(report.estimates->methods[0].total.ddr_read_bytes, weights) << "int8";
}

TEST_F(NpuEstimate, HalfPrecisionHasAPageWithoutCalibration) {
  TANDEM_NEEDS_QNN();
  CompileOptions with = options("sa8255");
  with.recipe = test::parse_recipe("fp16");
  with.calibration.report = folder_ / "page.html";
  test::must_compile(checkpoint_, output_, with);
  const auto page = test::read_file(folder_ / "page.html");
  const std::string html(page.begin(), page.end());
  EXPECT_HAS(html, "nothing was calibrated");
  EXPECT_HAS(html, "Estimated speed");
  EXPECT_EQ(html.find("All tensors"), std::string::npos);
}

// Before any work, like all outputs.
TEST_F(NpuEstimate, TheJsonReplacesNothingOfOthers) {
  test::write_file(folder_ / "mine.json", std::string_view("{\"notes\": 1}"));
  const auto error_of = [&](const fs::path& path) {
    CompileOptions with = options("sa8255");
    with.backend["estimate-json"] = path;
    with.backend["qnn-worker"] = "/nonexistent/worker";
    const auto report = compile(checkpoint_, output_, with);
    EXPECT_FALSE(report.ok());
    return report.ok() ? std::string() : report.error().message;
  };
  EXPECT_HAS(error_of(folder_ / "mine.json"), "a file of estimates");
  EXPECT_HAS(error_of(output_), "written twice");
  EXPECT_HAS(error_of(checkpoint_ / "config.json"), "config.json");
  EXPECT_HAS(error_of(folder_ / "absent" / "x.json"), "absent");
  test::write_file(folder_ / "ours.json", std::string_view("{\"kind\": \"tandem estimate\"}"));
  EXPECT_HAS(error_of(folder_ / "ours.json"), "/nonexistent/worker") << "may be replaced";
}

}  // namespace estimate_npu_test
}  // namespace tandem
