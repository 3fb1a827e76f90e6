// A crash inside QNN's library, a stop, a missing program: finished work is kept, and nothing half-done is left.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>
#include <fstream>

#include "backends/qnn/compile/npu_support.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace resume_npu_test {

namespace fs = std::filesystem;
using test::TempFolder;

class NpuResume : public testing::Test {
 protected:
  CompileOptions options() const {
    CompileOptions options = test::npu_options("w8");
    options.backend["shards"] = "3";
    options.backend["jobs"] = "1";
    return options;
  }
  std::string error_of(const CompileOptions& options) {
    const auto report = compile(checkpoint_, output_, options);
    EXPECT_FALSE(report.ok());
    EXPECT_FALSE(fs::exists(output_)) << "half a file";
    if (report.ok()) return {};
    EXPECT_EQ(report.error().message.find('\n'), std::string::npos);
    return report.error().message;
  }
  std::string error_of_copy(const fs::path& checkpoint) {
    const auto report = compile(checkpoint, output_, options());
    EXPECT_FALSE(report.ok());
    return report.ok() ? std::string() : report.error().message;
  }
  // The real worker, except for one shard.
  fs::path worker_that(const std::string& does, const std::string& shard) {
    return test::write_script(folder_ / "worker", "if grep -q '\"shard\": *\"" + shard + "\"' \"$1\"; then " + does +
                                                      "; fi\necho $$ >> " + (folder_ / "pids").string() +
                                                      "\nexec " TANDEM_WORKER " \"$@\"\n");
  }
  std::vector<int> pids() const {
    std::vector<int> list;
    std::ifstream file(folder_ / "pids");
    for (int pid; file >> pid;) list.push_back(pid);
    return list;
  }

  const TempFolder folder_;
  const fs::path checkpoint_ = test::golden_dir("qwen3");
  const fs::path output_ = folder_ / "model.tdm";
  const fs::path work_ = folder_ / "model.tdm.work";
};

TEST_F(NpuResume, ACrashOfOneShardKeepsTheOthers) {
  TANDEM_NEEDS_QNN();
  CompileOptions crashing = options();
  crashing.backend["qnn-worker"] = worker_that("kill -SEGV $$", "layers.1-1");
  const std::string message = error_of(crashing);
  EXPECT_HAS(message, "layers.1-1");
  EXPECT_HAS(message, "signal 11");
  EXPECT_HAS(message, "run the same command again");
  EXPECT_TRUE(fs::is_directory(work_));
  // Again: the finished one is not recompiled, and the other crashes again.
  EXPECT_EQ(pids().size(), 1u);
  EXPECT_HAS(error_of(crashing), "layers.1-1");
  EXPECT_EQ(pids().size(), 1u);
  const auto report = test::must_compile(checkpoint_, output_, options());
  EXPECT_EQ(report.segments_reused, 2u) << "the encodings and one shard";
  EXPECT_EQ(report.shards.size(), 3u) << "a report of all of them";
  EXPECT_FALSE(fs::exists(work_));
  const auto whole = test::must_compile(checkpoint_, folder_ / "whole.tdm", options());
  EXPECT_EQ(whole.segments_reused, 0u);
  EXPECT_TRUE(test::read_file(output_) == test::read_file(folder_ / "whole.tdm"));
  EXPECT_EQ(report.sqnr_db, whole.sqnr_db);
  EXPECT_NE(test::load_npu(output_), nullptr);
}

TEST_F(NpuResume, OtherOptionsStartAnew) {
  TANDEM_NEEDS_QNN();
  CompileOptions crashing = options();
  crashing.backend["qnn-worker"] = worker_that("kill -SEGV $$", "layers.1-1");
  const auto interrupted_then = [&](const std::function<void(CompileOptions&)>& change) {
    error_of(crashing);
    CompileOptions other = options();
    change(other);
    // Stopped as soon as it starts a worker: by then it is known what it would reuse.
    size_t workers = 0;
    other.backend["qnn-worker"] =
        test::write_script(folder_ / "counting", "echo x >> " + (folder_ / "count").string() + "\nexit 7\n");
    other.backend["jobs"] = "3";
    fs::remove(folder_ / "count");
    error_of(other);
    std::ifstream file(folder_ / "count");
    for (std::string line; std::getline(file, line);) ++workers;
    return workers;
  };
  // Two shards are left if nothing has changed.
  EXPECT_LE(interrupted_then([](CompileOptions&) {}), 2u);
  EXPECT_EQ(interrupted_then([](CompileOptions& o) { o.kv = KvFormat::kU16; }), 3u);
  EXPECT_EQ(interrupted_then([](CompileOptions& o) { o.context = 48; }), 3u);
  EXPECT_EQ(interrupted_then([](CompileOptions& o) { o.calibration.length = 7; }), 3u);
  EXPECT_EQ(interrupted_then([](CompileOptions& o) { o.calibration.method_given = true; }), 3u)
      << "other ranges of keys";
  EXPECT_EQ(interrupted_then([](CompileOptions& o) { o.backend["trace"] = "true"; }), 3u);
}

TEST_F(NpuResume, ADamagedShardIsMadeAgain) {
  TANDEM_NEEDS_QNN();
  CompileOptions crashing = options();
  crashing.backend["qnn-worker"] = worker_that("kill -SEGV $$", "layers.1-1");
  error_of(crashing);
  size_t damaged = 0;
  for (const auto& entry : fs::directory_iterator(work_)) {
    if (entry.path().extension() != ".segment" || entry.file_size() < 1000) continue;
    auto bytes = test::read_file(entry.path());
    bytes[bytes.size() / 2] ^= 1;
    test::write_file(entry.path(), bytes);
    ++damaged;
  }
  ASSERT_EQ(damaged, 1u);
  EXPECT_EQ(test::must_compile(checkpoint_, output_, options()).segments_reused, 1u) << "the encodings";
  EXPECT_NE(test::load_npu(output_), nullptr);
}

// Neither size nor time shows that the weights have changed.
TEST_F(NpuResume, WeightsThatChangedWithoutATraceAreReadAgain) {
  TANDEM_NEEDS_QNN();
  const fs::path copy = folder_ / "checkpoint";
  test::copy_checkpoint(checkpoint_, copy);
  CompileOptions crashing = options();
  crashing.backend["qnn-worker"] = worker_that("kill -SEGV $$", "layers.1-1");
  ASSERT_FALSE(compile(copy, output_, crashing).ok());
  const auto time = fs::last_write_time(copy / "model.safetensors");
  const std::vector<float> ones(64, 1.5f);
  ASSERT_TRUE(test::overwrite_tensor(copy, "model.layers.0.input_layernorm.weight", ones));
  fs::last_write_time(copy / "model.safetensors", time);
  EXPECT_EQ(test::must_compile(copy, output_, options()).segments_reused, 0u)
      << "the encodings and the first shard are of other weights";
  test::must_compile(copy, folder_ / "whole.tdm", options());
  EXPECT_TRUE(test::read_file(output_) == test::read_file(folder_ / "whole.tdm"));
}

TEST_F(NpuResume, WeightsThatChangeBeforeAWorkerReadsThemAreRefused) {
  TANDEM_NEEDS_QNN();
  const fs::path copy = folder_ / "checkpoint";
  test::copy_checkpoint(checkpoint_, copy);
  test::copy_checkpoint(checkpoint_, folder_ / "other");
  const std::vector<float> ones(64, 1.5f);
  ASSERT_TRUE(test::overwrite_tensor(folder_ / "other", "model.layers.1.input_layernorm.weight", ones));
  CompileOptions changing = options();
  changing.backend["qnn-worker"] =
      worker_that("cp " + (folder_ / "other/model.safetensors").string() + " " + (folder_ / "new").string() + "; mv " +
                      (folder_ / "new").string() + " " + (copy / "model.safetensors").string(),
                  "layers.1-1");
  const auto report = compile(copy, output_, changing);
  ASSERT_FALSE(report.ok());
  EXPECT_HAS(report.error().message, "has changed since the compile began");
}

// It would fail again, so finished work is useless.
TEST_F(NpuResume, ACompileThatCannotSucceedLeavesNothing) {
  TANDEM_NEEDS_QNN();
  const fs::path copy = folder_ / "checkpoint";
  test::copy_checkpoint(checkpoint_, copy);
  const std::vector<float> bad(4, std::nanf(""));
  ASSERT_TRUE(test::overwrite_tensor(copy, "model.layers.1.mlp.down_proj.weight", bad));
  const std::string message = error_of_copy(copy);
  EXPECT_HAS(message, "layers.1");
  EXPECT_FALSE(fs::exists(work_));
}

TEST_F(NpuResume, AStopEndsTheWorkersAndLeavesNoFile) {
  TANDEM_NEEDS_QNN();
  CompileOptions stopped = options();
  stopped.backend["qnn-worker"] = worker_that("true", "none");
  stopped.backend["jobs"] = "3";
  bool stop = false;
  stopped.progress = [&](const Progress& p) { stop = stop || p.stage.starts_with("layers.1-1: "); };
  stopped.stop = [&] { return stop; };
  const auto report = compile(checkpoint_, output_, stopped);
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.error().code, ErrorCode::kCancelled) << report.error().message;
  EXPECT_FALSE(fs::exists(output_));
  ASSERT_FALSE(pids().empty());
  for (const int pid : pids()) EXPECT_FALSE(test::process_exists(pid));
  EXPECT_GE(test::must_compile(checkpoint_, output_, options()).segments_reused, 1u);
  EXPECT_FALSE(fs::exists(work_));
}

TEST_F(NpuResume, WithoutAWorker) {
  TANDEM_NEEDS_QNN();
  CompileOptions without = options();
  without.backend["qnn-worker"] = folder_ / "absent";
  EXPECT_HAS(error_of(without), "absent is not there");
  EXPECT_EQ(folder_.entries(), 0u);
}

// These need no library: the missing library is what they test.
TEST_F(NpuResume, WithoutTheLibrary) {
  fs::create_directory(folder_ / "empty");
  CompileOptions without = options();
  without.backend["qnn-libs"] = folder_ / "empty";
  const std::string message = error_of(without);
  EXPECT_HAS(message, "libQnnHtp.so");
  EXPECT_HAS(message, "empty");
  EXPECT_HAS(message, "make qnn");
  EXPECT_EQ(folder_.entries(), 1u);
  test::write_file(folder_ / "empty/libQnnHtp.so", "not a library");
  EXPECT_HAS(error_of(without), "libQnnHtp.so");
}

TEST_F(NpuResume, CalibrationThatIsNotNeeded) {
  TANDEM_NEEDS_QNN();
  CompileOptions half = test::npu_options("fp16");
  test::write_file(folder_ / "text.txt", "Once upon a time");
  half.calibration.file = folder_ / "text.txt";
  EXPECT_HAS(error_of(half), "needs no calibration");
  EXPECT_EQ(folder_.entries(), 1u);
}

}  // namespace resume_npu_test
}  // namespace tandem
