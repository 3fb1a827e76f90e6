// What is written is read back, and what is damaged is noticed.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "artifact/sample_artifact.h"

namespace tandem {
namespace round_trip_test {

namespace fs = std::filesystem;
using test::TempFolder;

TEST(Artifact, RoundTrip) {
  const TempFolder folder;
  const fs::path path = test::write_sample(folder);
  const auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ArtifactHeader expected = test::sample_header();
  expected.segments = artifact->header().segments;  // Looked at below.
  EXPECT_TRUE(artifact->header() == expected);
  EXPECT_EQ(artifact->path(), path);
  EXPECT_EQ(artifact->file_size(), fs::file_size(path));
  EXPECT_TRUE(looks_like_artifact(path));

  ASSERT_EQ(artifact->header().segments.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Segment& segment = artifact->header().segments[i];
    EXPECT_EQ(segment.name, test::kSegmentNames[i]);
    EXPECT_EQ(segment.offset % kSegmentAlignment, 0u);
    const auto bytes = artifact->segment_bytes(i);
    EXPECT_EQ(std::vector<uint8_t>(bytes.begin(), bytes.end()), test::sample_segments()[i]);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(bytes.data()) % 4096, 0u);
    EXPECT_TRUE(artifact->verify_segment(i).ok());
    artifact->release_segment(i);
    EXPECT_TRUE(artifact->verify_segment(i).ok());
  }
}

TEST(Artifact, Int16InputsRoundTrip) {
  ArtifactHeader header = test::placed_header();
  const auto linear = std::ranges::find(header.methods[0].ops, ir::OpKind::kLinear, &ir::Op::kind);
  ASSERT_TRUE(linear->attributes.quantize_input);
  linear->attributes.int16_input = true;
  const std::vector<uint8_t> bytes = encode_header(header);
  const auto decoded = decode_header(bytes, test::kPlacedEnd);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->methods, header.methods);
}

TEST(Artifact, FindsWeightsVectorsAndMethodsByName) {
  const TempFolder folder;
  const auto artifact = Artifact::open(test::write_sample(folder));
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const WeightEntry* weight = artifact->find_weight("layers.0.q");
  ASSERT_NE(weight, nullptr);
  EXPECT_EQ(weight->format, WeightFormat::kLpbq4);
  const auto data = artifact->bytes(weight->scales);
  EXPECT_EQ(data.size(), test::kPart);
  EXPECT_EQ(data[0], test::sample_segments()[0][weight->scales.offset]);
  EXPECT_TRUE(artifact->bytes(Range{}).empty());
  EXPECT_EQ(artifact->find_weight("absent"), nullptr);
  ASSERT_NE(artifact->find_vector("rope.frequency"), nullptr);
  EXPECT_EQ(artifact->find_vector("layers.0.q"), nullptr);
  ASSERT_NE(artifact->find_method("prefill_4"), nullptr);
  EXPECT_EQ(artifact->find_method("prefill_4")->tokens, 4);
  EXPECT_EQ(artifact->find_method("prefill_5"), nullptr);
}

TEST(Artifact, HeaderAloneRoundTrips) {
  const auto bytes = encode_header(test::placed_header());
  const auto header = decode_header(bytes, test::kPlacedEnd);
  ASSERT_TRUE(header.ok()) << header.error().message;
  EXPECT_TRUE(*header == test::placed_header());
}

// ---- Writing ----

TEST(WriteArtifact, StoppedLeavesNothing) {
  const TempFolder folder;
  const auto segments = test::write_segments(folder);
  const size_t before = folder.entries();
  const Status status =
      write_artifact(folder / "out.tdm", test::sample_header(), segments, {.stop = [] { return true; }});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(folder.entries(), before);
}

TEST(WriteArtifact, AMissingSegmentLeavesNothing) {
  const TempFolder folder;
  auto segments = test::write_segments(folder);
  fs::remove(segments[1].path);
  const size_t before = folder.entries();
  const Status status = write_artifact(folder / "out.tdm", test::sample_header(), segments, {});
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("vectors"), std::string::npos) << status.error().message;
  EXPECT_EQ(folder.entries(), before);
}

TEST(WriteArtifact, IntoNowhere) {
  const TempFolder folder;
  const auto segments = test::write_segments(folder);
  EXPECT_FALSE(write_artifact(folder / "absent/out.tdm", test::sample_header(), segments, {}).ok());
}

// ---- Not an artifact ----

TEST(LooksLikeArtifact, OnlyByItsBeginning) {
  const TempFolder folder;
  EXPECT_FALSE(looks_like_artifact(folder / "missing"));
  EXPECT_FALSE(looks_like_artifact(folder.path()));
  test::write_file(folder / "short", std::string_view("TANDEM"));
  EXPECT_FALSE(looks_like_artifact(folder / "short"));
  test::write_file(folder / "text", std::string_view("{\"a\": 1}, and more"));
  EXPECT_FALSE(looks_like_artifact(folder / "text"));
  test::write_file(folder / "magic", std::string_view("TANDEM\r\n"));
  EXPECT_TRUE(looks_like_artifact(folder / "magic"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(looks_like_artifact(folder / "pipe"));
}

TEST(OpenArtifact, OtherFiles) {
  const TempFolder folder;
  for (const std::string& content : {std::string(), std::string("x"), std::string(63, 'T'), std::string(20'000, '\0'),
                                     std::string("TANDEM\r\n") + std::string(1000, '\xff')}) {
    test::write_file(folder / "other", content);
    const auto artifact = Artifact::open(folder / "other");
    ASSERT_FALSE(artifact.ok());
    EXPECT_EQ(artifact.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(artifact.error().message.find("other"), std::string::npos) << artifact.error().message;
  }
  EXPECT_EQ(Artifact::open(folder / "missing").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(Artifact::open(folder.path()).ok());
}

// A copy through a text-mode transfer changes line ends: the magic bytes notice.
TEST(OpenArtifact, LineEndsTranslated) {
  const TempFolder folder;
  auto bytes = test::read_file(test::write_sample(folder));
  bytes.erase(bytes.begin() + 6);  // \r\n became \n.
  test::write_file(folder / "translated", bytes);
  const auto artifact = Artifact::open(folder / "translated");
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message.find("not a tandem file"), std::string::npos) << artifact.error().message;
}

// A file of format version 1 that must keep loading.
TEST(OpenArtifact, Version1StillLoads) {
  const fs::path path = fs::path(TANDEM_SOURCE_DIR) / "tests/data/artifact/v1.tdm";
  if (!fs::exists(path)) GTEST_SKIP() << path << " is not there";
  const auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  EXPECT_NE(artifact->find_method("decode"), nullptr);
  for (size_t i = 0; i < artifact->header().segments.size(); ++i) {
    const Status status = artifact->verify_segment(i);
    EXPECT_TRUE(status.ok()) << status.error().message;
  }
}

}  // namespace round_trip_test
}  // namespace tandem
