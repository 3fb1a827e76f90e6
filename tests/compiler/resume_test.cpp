// A compile that is stopped leaves no file, and the next one goes on where it was.
#include <gtest/gtest.h>

#include <thread>

#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::TempFolder;

class Resume : public testing::Test {
 protected:
  CompileOptions options() const { return test::to_options({.recipe = "w8", .context = 128}); }

  // Stops when the compile reaches a stage.
  void stop_at(const std::string& stage, CompileOptions options) {
    bool stop = false;
    options.progress = [&](const Progress& p) { stop = stop || p.stage == stage; };
    options.stop = [&] { return stop; };
    const auto report = compile(checkpoint_, output_, options);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kCancelled) << report.error().message;
    EXPECT_FALSE(fs::exists(output_)) << "half a file";
  }
  CompileReport go_on(const CompileOptions& options) {
    auto report = compile(checkpoint_, output_, options);
    EXPECT_TRUE(report.ok()) << (report.ok() ? "" : report.error().message);
    EXPECT_FALSE(fs::exists(work_)) << "the work folder is still there";
    return report.ok() ? *std::move(report) : CompileReport{};
  }
  std::vector<uint8_t> uninterrupted(const CompileOptions& options) {
    EXPECT_TRUE(compile(checkpoint_, folder_ / "whole.tdm", options).ok());
    return test::read_file(folder_ / "whole.tdm");
  }

  const TempFolder folder_;
  fs::path checkpoint_ = test::demo_dir();
  const fs::path output_ = folder_ / "model.tdm";
  const fs::path work_ = folder_ / "model.tdm.work";
};

TEST_F(Resume, GoesOnWithTheFinishedSegments) {
  stop_at("layers.3", options());
  EXPECT_TRUE(fs::is_directory(work_));
  const auto report = go_on(options());
  EXPECT_EQ(report.segments_reused, 4u) << "the embedding and three layers";
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

TEST_F(Resume, CountsTheNoiseOfReusedSegments) {
  stop_at("layers.3", options());
  const auto report = go_on(options());
  const auto whole = compile(checkpoint_, folder_ / "whole.tdm", options());
  EXPECT_EQ(report.sqnr_db, whole->sqnr_db);
}

TEST_F(Resume, StoppedTwice) {
  stop_at("layers.1", options());
  stop_at("layers.4", options());
  EXPECT_EQ(go_on(options()).segments_reused, 5u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

TEST_F(Resume, StoppedWhileTheFileIsPutTogether) {
  stop_at("writing the file", options());
  EXPECT_EQ(folder_.entries(), 1u) << "the work folder alone";
  EXPECT_GE(go_on(options()).segments_reused, 8u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

TEST_F(Resume, StoppedBeforeAnythingWasFinishedLeavesNothing) {
  stop_at("embedding", options());
  EXPECT_EQ(folder_.entries(), 0u);
  EXPECT_EQ(go_on(options()).segments_reused, 0u);
}

TEST_F(Resume, AnOldFileStaysUntilTheNewOneIsThere) {
  test::write_file(output_, "the old file");
  bool stop = false;
  CompileOptions stopped = options();
  stopped.progress = [&](const Progress& p) { stop = p.stage == "layers.2"; };
  stopped.stop = [&] { return stop; };
  ASSERT_FALSE(compile(checkpoint_, output_, stopped).ok());
  EXPECT_EQ(fs::file_size(output_), 12u);
}

TEST_F(Resume, AnotherRecipeStartsAnew) {
  stop_at("layers.3", options());
  CompileOptions other = options();
  other.recipe = *recipe_preset("w4");
  EXPECT_EQ(go_on(other).segments_reused, 0u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(other));
}

TEST_F(Resume, AnotherCheckpointStartsAnew) {
  test::copy_checkpoint(test::golden_dir("qwen3"), folder_ / "checkpoint");
  checkpoint_ = folder_ / "checkpoint";
  stop_at("layers.1", options());
  const std::vector<float> ones(64, 1.5f);
  ASSERT_TRUE(test::overwrite_tensor(checkpoint_, "model.layers.0.input_layernorm.weight", ones));
  EXPECT_EQ(go_on(options()).segments_reused, 0u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

// Other methods are made of the same weights.
TEST_F(Resume, AnotherContextKeepsTheWork) {
  stop_at("layers.3", options());
  CompileOptions other = options();
  other.context = 64;
  other.prefill = {16};
  EXPECT_EQ(go_on(other).segments_reused, 4u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(other));
}

TEST_F(Resume, ADamagedSegmentIsMadeAgain) {
  stop_at("layers.4", options());
  std::vector<fs::path> segments;
  for (const auto& entry : fs::directory_iterator(work_)) {
    if (entry.path().extension() == ".segment") segments.push_back(entry.path());
  }
  std::ranges::sort(segments);
  ASSERT_EQ(segments.size(), 5u);
  auto bytes = test::read_file(segments[1]);
  bytes[bytes.size() / 2] ^= 1;
  test::write_file(segments[1], bytes);
  fs::resize_file(segments[2], 100);
  fs::remove(segments[3]);
  EXPECT_EQ(go_on(options()).segments_reused, 2u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

TEST_F(Resume, ADamagedManifestMeansStartingAnew) {
  checkpoint_ = test::golden_dir("gemma2");  // Small: it is compiled many times.
  const auto whole = uninterrupted(options());
  for (const char* text : {"", "{", "[1, 2]", "null", "\"text\"", R"({"key": 5, "segments": {}})", R"({"key": null})",
                           R"({"segments": [1, 2]})"}) {
    SCOPED_TRACE(text);
    stop_at("layers.3", options());
    test::write_file(work_ / "manifest.json", std::string_view(text));
    EXPECT_EQ(go_on(options()).segments_reused, 0u);
    EXPECT_TRUE(test::read_file(output_) == whole);
    fs::remove(output_);
  }
}

TEST_F(Resume, ADamagedEntryOfTheManifestMeansMakingThatSegmentAgain) {
  checkpoint_ = test::golden_dir("gemma2");  // Small: it is compiled many times.
  const auto whole = uninterrupted(options());
  for (const char* value : {"\"large\"", "-1", "null", "1e300", "[]"}) {
    SCOPED_TRACE(value);
    stop_at("layers.3", options());
    const auto bytes = test::read_file(work_ / "manifest.json");
    Json manifest = Json::parse(bytes.begin(), bytes.end());
    manifest["segments"]["layers.1"]["size"] = Json::parse(value);
    manifest["segments"]["layers.2"] = Json::parse(value);
    test::write_file(work_ / "manifest.json", std::string_view(manifest.dump()));
    EXPECT_LE(go_on(options()).segments_reused, 2u);
    EXPECT_TRUE(test::read_file(output_) == whole);
    fs::remove(output_);
  }
}

TEST_F(Resume, ASecondCompileAtTheSameTimeIsRefusedAndDoesNoHarm) {
  CompileOptions first = options();
  int refused = 0;
  first.progress = [&](const Progress& p) {
    if (p.stage != "layers.2" || refused > 0) return;
    ++refused;
    const auto second = compile(checkpoint_, output_, options());
    ASSERT_FALSE(second.ok());
    EXPECT_NE(second.error().message.find("another compile"), std::string::npos) << second.error().message;
    EXPECT_TRUE(fs::exists(work_ / "manifest.json")) << "the refused compile took the first one's work away";
  };
  EXPECT_EQ(go_on(first).segments_reused, 0u);
  EXPECT_EQ(refused, 1);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

}  // namespace
}  // namespace tandem
