// A stopped compile leaves no file, and the next one resumes it.
#include <gtest/gtest.h>

#include <thread>

#include "compiler/compile_job.h"
#include "compiler/work_folder.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace resume_test {

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
  CompileOptions given_;
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
  stopped.force = true;
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

// Other methods use the same weights.
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

// Neither size nor time shows that the weights have changed.
TEST_F(Resume, WeightsThatChangedWithoutATraceAreReadAgain) {
  test::copy_checkpoint(test::golden_dir("qwen3"), folder_ / "checkpoint");
  checkpoint_ = folder_ / "checkpoint";
  stop_at("layers.1", options());
  const auto time = fs::last_write_time(checkpoint_ / "model.safetensors");
  const std::vector<float> ones(64, 1.5f);
  ASSERT_TRUE(test::overwrite_tensor(checkpoint_, "model.layers.0.input_layernorm.weight", ones));
  fs::last_write_time(checkpoint_ / "model.safetensors", time);
  EXPECT_EQ(go_on(options()).segments_reused, 1u) << "the embedding, which is the same";
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

TEST_F(Resume, WhatAKilledRunWasWritingIsRemoved) {
  stop_at("layers.3", options());
  for (const char* name : {"00003.segment.0123456789abcdef.partial", "model.tdm.0123456789abcdef.partial",
                           "manifest.json.0123456789abcdef.partial"}) {
    test::write_file(work_ / name, std::string_view("half"));
  }
  EXPECT_EQ(go_on(options()).segments_reused, 4u);
  EXPECT_TRUE(test::read_file(output_) == uninterrupted(options()));
}

// Finished segments need no more disk space: the rest fits where twice the file would not.
TEST_F(Resume, CountsWhatIsFinishedAsRoom) {
  stop_at("layers.3", options());
  auto work = WorkFolder::open(output_, "another key");
  ASSERT_TRUE(work.ok()) << work.error().message;
  EXPECT_LE(work->finished_bytes(), 4096u) << "work for another key is thrown away";
  { const WorkFolder closed = std::move(work).value(); }
  EXPECT_FALSE(fs::exists(work_));
  uint64_t free_space = 0;
  {
    const auto job = CompileJob::open(checkpoint_, output_, given_ = options());
    ASSERT_TRUE(job.ok());
    free_space = fs::space(folder_.path()).available;
    EXPECT_FALSE((*job)->check_disk(free_space, 0).ok());
    EXPECT_TRUE((*job)->check_disk(free_space, free_space + (uint64_t{1} << 30)).ok());
    EXPECT_TRUE((*job)->check_disk(1 << 20, uint64_t{1} << 40).ok()) << "more than all of it";
  }
}

// ---- Foreign files and folders ----

class ForeignWork : public Resume {
 protected:
  // The compile is refused with an error that names `what`, and changes nothing.
  void expect_refused(const std::string& what) {
    const auto report = compile(checkpoint_, output_, options());
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument) << report.error().message;
    EXPECT_NE(report.error().message.find(what), std::string::npos) << report.error().message;
    EXPECT_FALSE(fs::exists(output_));
  }
};

TEST_F(ForeignWork, AFolderWithTheUsersOwnFilesStaysAsItIs) {
  checkpoint_ = test::golden_dir("qwen3");
  fs::create_directories(work_ / "photos");
  test::write_file(work_ / "photos/1.jpg", std::string_view("picture"));
  expect_refused("photos");
  test::write_file(work_ / "thesis.txt", std::string_view("three years"));
  fs::remove_all(work_ / "photos");
  expect_refused("thesis.txt");
  EXPECT_EQ(test::read_file(work_ / "thesis.txt").size(), 11u);
  EXPECT_EQ(std::distance(fs::directory_iterator(work_), {}), 1) << "something was written there";
}

// Names that we use, but no lock: another program's.
TEST_F(ForeignWork, AFolderWithoutOurLockStaysAsItIs) {
  checkpoint_ = test::golden_dir("qwen3");
  fs::create_directory(work_);
  test::write_file(work_ / "manifest.json", std::string_view("{}"));
  expect_refused("model.tdm.work");
  EXPECT_TRUE(fs::exists(work_ / "manifest.json"));
}

// Another program's lock, and one that is a hard link to another file.
TEST_F(ForeignWork, AFolderWithSomebodyElsesLockStaysAsItIs) {
  checkpoint_ = test::golden_dir("qwen3");
  fs::create_directory(work_);
  test::write_file(work_ / "tandem-work.lock", std::string_view("my notes"));
  expect_refused("model.tdm.work");
  test::write_file(work_ / "00000.segment", std::string_view("mine"));
  expect_refused("model.tdm.work");
  EXPECT_EQ(test::read_file(work_ / "00000.segment").size(), 4u);
  fs::remove_all(work_);
  fs::create_directory(work_);
  test::write_file(folder_ / "empty", std::string_view());
  fs::create_hard_link(folder_ / "empty", work_ / "tandem-work.lock");
  expect_refused("second name");
  EXPECT_EQ(fs::file_size(folder_ / "empty"), 0u);
  fs::remove_all(work_);
  // What a power cut may leave of our lock.
  fs::create_directory(work_);
  test::write_file(work_ / "tandem-work.lock", std::string_view("What `tandem\0\0", 14));
  EXPECT_EQ(go_on(options()).segments_reused, 0u);
}

TEST_F(ForeignWork, LinksAreNotFollowed) {
  checkpoint_ = test::golden_dir("qwen3");
  fs::create_directory(folder_ / "elsewhere");
  test::write_file(folder_ / "elsewhere/00000.segment", std::string_view("theirs"));
  fs::create_directory_symlink("elsewhere", work_);
  expect_refused("is a link");
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere/00000.segment"));
  fs::remove(work_);

  // Inside one of our folders.
  stop_at("layers.1", options());
  fs::remove(work_ / "00000.segment");
  fs::create_symlink(folder_ / "elsewhere/00000.segment", work_ / "00000.segment");
  expect_refused("00000.segment");
  EXPECT_EQ(test::read_file(folder_ / "elsewhere/00000.segment").size(), 6u);
}

TEST_F(ForeignWork, AFileThatTurnsUpMeanwhileStays) {
  checkpoint_ = test::golden_dir("qwen3");
  CompileOptions meddled = options();
  meddled.progress = [&](const Progress&) { test::write_file(work_ / "note.txt", std::string_view("do not lose me")); };
  ASSERT_TRUE(compile(checkpoint_, output_, meddled).ok());
  EXPECT_EQ(test::read_file(work_ / "note.txt").size(), 14u);
  // The lock still marks the folder as ours; all our other files are gone.
  EXPECT_EQ(std::distance(fs::directory_iterator(work_), {}), 2);
  fs::remove(output_);
  expect_refused("note.txt");
  fs::remove(work_ / "note.txt");
  EXPECT_EQ(go_on(options()).segments_reused, 0u);
}

TEST_F(ForeignWork, AnEmptyFolderMayBeUsed) {
  checkpoint_ = test::golden_dir("qwen3");
  fs::create_directory(work_);
  EXPECT_EQ(go_on(options()).segments_reused, 0u);
}

}  // namespace resume_test
}  // namespace tandem
