// Files for an NPU that are damaged, for another chip or from another library: Engine::load reports it.
#include <gtest/gtest.h>

#include <functional>

#include "artifact/writer.h"
#include "backends/qnn/compile/npu_support.h"
#include "base/json.h"

namespace tandem {
namespace load_errors_test {

namespace fs = std::filesystem;
using test::TempFolder;

class NpuLoad : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!qnn::test::qnn_library().ok()) return;
    folder_ = new TempFolder;
    CompileOptions options = test::npu_options("w8");
    options.backend["shards"] = "2";
    test::must_compile(test::golden_dir("qwen3"), file(), options);
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  static fs::path file() { return *folder_ / "whole.tdm"; }

  static fs::path changed_file() { return *folder_ / "changed.tdm"; }

  // The file with another header; segments and checksums unchanged.
  static Status write_changed(const std::function<void(ArtifactHeader&)>& change) {
    const auto artifact = Artifact::open(file());
    EXPECT_TRUE(artifact.ok());
    ArtifactHeader header = artifact->header();
    std::vector<SegmentFile> segments;
    for (size_t i = 0; i < header.segments.size(); ++i) {
      const fs::path path = *folder_ / ("segment" + std::to_string(i));
      test::write_file(path, artifact->segment_bytes(i));
      segments.push_back({header.segments[i].name, path, header.segments[i].hash});
    }
    change(header);
    return write_artifact(changed_file(), header, segments, {});
  }
  static fs::path with_header(const std::function<void(ArtifactHeader&)>& change) {
    const Status status = write_changed(change);
    EXPECT_TRUE(status.ok()) << status.error().message;
    return changed_file();
  }
  static std::string error_of(const fs::path& path, EngineOptions options = test::npu_engine_options()) {
    const auto engine = Engine::load(path, options);
    EXPECT_FALSE(engine.ok());
    const std::string message = engine.ok() ? "" : engine.error().message;
    std::printf("[ says     ] %s\n", message.c_str());
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_LT(message.size(), 600u);
    return message;
  }

  static TempFolder* folder_;
};
TempFolder* NpuLoad::folder_ = nullptr;

TEST_F(NpuLoad, TheWholeFileLoads) {
  TANDEM_NEEDS_QNN();
  EXPECT_NE(test::load_npu(file()), nullptr);
  EXPECT_NE(test::load_npu(with_header([](ArtifactHeader&) {})), nullptr) << "the test's own writing damages it";
}

TEST_F(NpuLoad, Truncated) {
  TANDEM_NEEDS_QNN();
  const auto bytes = test::read_file(file());
  for (const size_t size : {size_t{0}, size_t{7}, size_t{100}, bytes.size() / 3, bytes.size() / 2, bytes.size() - 1}) {
    test::write_file(*folder_ / "short.tdm", std::span(bytes).first(size));
    error_of(*folder_ / "short.tdm");
  }
}

// QNN's library loads most of these without complaint.
TEST_F(NpuLoad, AFlippedByteInAShard) {
  TANDEM_NEEDS_QNN();
  const auto artifact = Artifact::open(file());
  for (const Shard& shard : artifact->header().shards) {
    const Segment& segment = artifact->header().segments[shard.binary.segment];
    for (const uint64_t at : {uint64_t{0}, segment.size / 2, segment.size - 1}) {
      auto bytes = test::read_file(file());
      bytes[segment.offset + at] ^= 0x10;
      test::write_file(*folder_ / "flipped.tdm", bytes);
      const std::string message = error_of(*folder_ / "flipped.tdm");
      EXPECT_HAS(message, shard.name);
      EXPECT_HAS(message, "damaged");
    }
  }
}

TEST_F(NpuLoad, ForAnotherChip) {
  TANDEM_NEEDS_QNN();
  EXPECT_NE(test::load_npu(file()), nullptr);
  const std::string message = error_of(with_header([](ArtifactHeader& header) {
    header.device.soc_model = 57;
    header.device.arch = 75;
  }));
  EXPECT_HAS(message, "V75");
  EXPECT_HAS(error_of(with_header([](ArtifactHeader& header) { header.device.arch = 75; })), "V75");
  EXPECT_HAS(error_of(with_header([](ArtifactHeader& header) { header.device.arch = 0; })), "chip");
}

TEST_F(NpuLoad, OfAnotherLibrary) {
  TANDEM_NEEDS_QNN();
  const std::string newer =
      error_of(with_header([](ArtifactHeader& header) { header.device.core_version = "2.41.0"; }));
  EXPECT_HAS(newer, "2.41.0");
  EXPECT_HAS(newer, "compile the model again");
  EXPECT_HAS(error_of(with_header([](ArtifactHeader& header) { header.device.backend_version = "5.99.0"; })), "5.99.0");
  EXPECT_NE(test::load_npu(with_header([](ArtifactHeader& header) { header.device.core_version = "2.27.0"; })), nullptr)
      << "an older library compiled it";
}

TEST_F(NpuLoad, WeightsThatAreShared) {
  TANDEM_NEEDS_QNN();
  EXPECT_HAS(error_of(with_header([](ArtifactHeader& header) { header.device.weight_shared = true; })),
             "share their weights");
}

TEST_F(NpuLoad, ShardsThatDoNotBelongTogether) {
  TANDEM_NEEDS_QNN();
  EXPECT_HAS(error_of(with_header([](ArtifactHeader& header) { header.shards.pop_back(); })), "logits");
  error_of(with_header([](ArtifactHeader& header) { std::swap(header.shards[0], header.shards[1]); }));
  // Without any, the reader would look for a CPU's weights: such a file is not even written.
  const Status status = write_changed([](ArtifactHeader& header) { header.shards.clear(); });
  ASSERT_FALSE(status.ok());
  EXPECT_HAS(status.error().message, "could not be opened again");
}

TEST_F(NpuLoad, WithoutTheLibrary) {
  TANDEM_NEEDS_QNN();
  EngineOptions options = test::npu_engine_options();
  options.backend["qnn-libs"] = "/nonexistent";
  const std::string message = error_of(file(), options);
  EXPECT_HAS(message, "/nonexistent");
  EXPECT_HAS(message, "make qnn");
}

}  // namespace load_errors_test
}  // namespace tandem
