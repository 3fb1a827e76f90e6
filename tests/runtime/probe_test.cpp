// probe(): whether a file can run here. tests/backends/qnn/execute/probe_test.cpp has the NPU's reasons.
#include "tandem/probe.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>

#include "artifact/header_codec.h"
#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "support/compiled_model.h"

namespace tandem {
namespace probe_test {

std::filesystem::path demo_file() { return test::compiled({.checkpoint = test::demo_dir()}); }

// The demo's file with another header and correct checksums.
std::filesystem::path with_header(const test::TempFolder& folder, const std::function<void(ArtifactHeader&)>& change) {
  auto file = test::read_file(demo_file());
  const auto artifact = Artifact::open(demo_file());
  EXPECT_TRUE(artifact.ok());
  ArtifactHeader header = artifact->header();
  change(header);
  Preamble preamble;
  std::memcpy(&preamble, file.data(), sizeof(preamble));
  const std::vector<uint8_t> encoded = encode_header(header);
  file.resize(preamble.header_offset);
  file.insert(file.end(), encoded.begin(), encoded.end());
  preamble.file_size = file.size();
  preamble.header_size = encoded.size();
  preamble.header_hash = hash_bytes(encoded);
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(&preamble), sizeof(preamble));
  preamble.preamble_hash = hash_bytes(bytes.first(sizeof(preamble) - sizeof(uint64_t)));
  std::memcpy(file.data(), &preamble, sizeof(preamble));
  test::write_file(folder / "changed.tdm", file);
  return folder / "changed.tdm";
}

TEST(Probe, ACpuRunsTheDemo) {
  const auto report = probe(demo_file());
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->usable);
  ASSERT_EQ(report->backends.size(), 1u);
  const BackendProbe& cpu = report->backends[0];
  EXPECT_EQ(cpu.backend, "cpu");
  EXPECT_EQ(cpu.target, "cpu");
  EXPECT_TRUE(cpu.usable);
  EXPECT_EQ(cpu.reason + cpu.remedy, "");
  EXPECT_FALSE(cpu.device.empty());
  EXPECT_GT(cpu.memory_needed_bytes, cpu.session_bytes);
  EXPECT_GT(cpu.session_bytes, 0u);
  EXPECT_GT(cpu.memory_free_bytes, 0u);
}

TEST(Probe, WithoutAFileEveryBackEndAnswers) {
  const auto report = probe();
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->usable);
  ASSERT_EQ(report->backends.size(), 3u);
  for (const BackendProbe& backend : report->backends) {
    EXPECT_EQ(backend.target, "");
    EXPECT_EQ(backend.usable, backend.reason.empty()) << backend.backend;
    EXPECT_EQ(backend.usable, backend.remedy.empty()) << backend.backend;
  }
}

TEST(Probe, AsJson) {
  const auto report = probe(demo_file());
  ASSERT_TRUE(report.ok());
  const Json json = Json::parse(report->to_json());
  EXPECT_EQ(json["file"], demo_file().string());
  EXPECT_EQ(json["usable"], true);
  EXPECT_EQ(json["backends"][0]["backend"], "cpu");
  EXPECT_EQ(json["backends"][0]["memory_needed_bytes"], report->backends[0].memory_needed_bytes);
  ProbeReport odd;
  odd.backends.push_back({.backend = "\xff\"\n", .reason = "a\\b"});
  EXPECT_EQ(Json::parse(odd.to_json())["backends"][0]["reason"], "a\\b");
}

TEST(Probe, APartOfAFile) {
  const int fd = ::open(demo_file().c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const auto report = probe(FileRegion{fd, 0, -1});
  ::close(fd);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(report->usable);
  EXPECT_FALSE(probe(FileRegion{-1, 0, -1}).ok());
}

TEST(Probe, BrokenFilesAreErrors) {
  const test::TempFolder folder;
  EXPECT_EQ(probe(folder / "absent.tdm").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(probe(folder.path()).ok());
  auto bytes = test::read_file(demo_file());
  for (const size_t size : {size_t{0}, size_t{10}, size_t{64}, bytes.size() / 2, bytes.size() - 1}) {
    test::write_file(folder / "cut.tdm", std::span(bytes).first(size));
    EXPECT_EQ(probe(folder / "cut.tdm").error().code, ErrorCode::kCorrupt) << size;
  }
  bytes[bytes.size() - 100] ^= 1;  // In the header.
  test::write_file(folder / "flipped.tdm", bytes);
  EXPECT_EQ(probe(folder / "flipped.tdm").error().code, ErrorCode::kCorrupt);
}

TEST(Probe, OptionsThatLoadingRefusesAreErrors) {
  EXPECT_EQ(probe(demo_file(), {.threads = -1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(probe(demo_file(), {.backend = {{"nonsense", "1"}}}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(probe(std::filesystem::path(), {.backend = {{"profile", "warp"}}}).error().code,
            ErrorCode::kInvalidArgument);
}

TEST(Probe, ABackEndThatThisBuildLacksIsAReason) {
  const test::TempFolder folder;
  const auto report = probe(with_header(folder, [](ArtifactHeader& header) { header.backend = "abacus"; }));
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->usable);
  EXPECT_EQ(report->backends[0].backend, "abacus");
  EXPECT_NE(report->backends[0].reason.find("abacus"), std::string::npos);
  EXPECT_EQ(report->backends[0].remedy, "use a newer tandem");
}

TEST(Probe, ASessionLargerThanTheMemoryIsAReason) {
  const test::TempFolder folder;
  const auto file = with_header(folder, [](ArtifactHeader& header) {
    const int64_t context = int64_t{1} << 30;
    for (ir::Graph& graph : header.methods) {
      for (const ir::Op& op : graph.ops) {
        if (op.kind == ir::OpKind::kMaskToFloat) graph.at(op.outputs[0]).shape[1] = context;
      }
      for (ir::Tensor& t : graph.tensors) {
        if (t.role == ir::TensorRole::kState || t.name == "mask") t.shape[1] = context;
      }
      graph.context = context;
    }
  });
  const auto report = probe(file);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_FALSE(report->usable);
  EXPECT_NE(report->backends[0].reason.find("a session needs"), std::string::npos) << report->backends[0].reason;
  EXPECT_NE(report->backends[0].remedy.find("`context`"), std::string::npos);
}

TEST(Probe, WeightsAreNotRead) {
  // A flipped byte among the weights is for loading to find.
  const test::TempFolder folder;
  auto bytes = test::read_file(demo_file());
  bytes[20000] ^= 1;
  test::write_file(folder / "flipped.tdm", bytes);
  EXPECT_TRUE(probe(folder / "flipped.tdm")->usable);
}

}  // namespace probe_test
}  // namespace tandem
