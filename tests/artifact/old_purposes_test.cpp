// Files from before purposes were stored get them from their names.
#include <gtest/gtest.h>

#include "artifact/sample_artifact.h"

namespace tandem {
namespace {

using ir::PurposeKind;

Result<ArtifactHeader> read_old(const ArtifactHeader& header) {
  return decode_header(encode_header(header, /*revision=*/0), test::kPlacedEnd);
}

TEST(OldPurposes, AreReadFromNames) {
  ArtifactHeader header = test::placed_header();
  const std::vector<ir::Graph> named = header.methods;
  for (ir::Graph& graph : header.methods) {
    for (ir::Tensor& tensor : graph.tensors) tensor.purpose = {};
  }
  const auto decoded = read_old(header);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->methods, named);
}

TEST(OldPurposes, NamesMeanNothingWherePurposesAreStored) {
  ArtifactHeader header = test::placed_header();
  for (ir::Graph& graph : header.methods) {
    for (ir::Tensor& tensor : graph.tensors) tensor.purpose = {};
  }
  const auto decoded = decode_header(encode_header(header), test::kPlacedEnd);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message;
  EXPECT_EQ(decoded->methods, header.methods);
}

TEST(OldPurposes, HostileNamesAreRefused) {
  for (const char* name : {"k_cache.x", "k_cache.0.0.0", "k_cache.4294967296", "v_cache.00"}) {
    ArtifactHeader header = test::placed_header();
    ir::Graph& graph = header.methods[0];
    graph.at(*graph.find("k_cache.0")).name = name;
    const auto decoded = read_old(header);
    ASSERT_FALSE(decoded.ok()) << name;
    EXPECT_NE(decoded.error().message.find(name), std::string::npos) << decoded.error().message;
  }
}

TEST(OldPurposes, HostilePurposesAreRefused) {
  const std::pair<ir::Purpose, const char*> wrong[] = {
      {{.kind = PurposeKind::kTokens}, "tokens"},
      {{.kind = PurposeKind::kKeyCache, .layer = -1}, "layer -1"},
      {{.kind = PurposeKind::kValueCache, .layer = 0}, "one purpose"},
      {{.kind = static_cast<PurposeKind>(250)}, "newer tandem"},
  };
  for (const auto& [purpose, words] : wrong) {
    ArtifactHeader header = test::placed_header();
    ir::Graph& graph = header.methods[0];
    graph.at(*graph.find("k_cache.0")).purpose = purpose;
    const auto decoded = decode_header(encode_header(header), test::kPlacedEnd);
    ASSERT_FALSE(decoded.ok()) << words;
    EXPECT_NE(decoded.error().message.find(words), std::string::npos) << decoded.error().message;
  }
}

// Files that were written by tandem 0.1.0.
TEST(OldPurposes, StoredFilesHaveThem) {
  for (const char* name : {"v1.tdm", "v1_mixed.tdm"}) {
    const auto artifact = Artifact::open(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/artifact" / name);
    ASSERT_TRUE(artifact.ok()) << artifact.error().message;
    for (const ir::Graph& graph : artifact->header().methods) {
      for (const PurposeKind kind : {PurposeKind::kTokens, PurposeKind::kPositions, PurposeKind::kMask,
                                     PurposeKind::kLogits, PurposeKind::kEmbedding}) {
        EXPECT_TRUE(graph.find(kind).has_value()) << ir::purpose_kind_name(kind);
      }
      for (int32_t layer = 0; layer < artifact->header().model.layers; ++layer) {
        for (const PurposeKind kind : {PurposeKind::kKeyCache, PurposeKind::kValueCache, PurposeKind::kHidden}) {
          EXPECT_TRUE(graph.find(ir::Purpose{.kind = kind, .layer = layer}).has_value()) << layer;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tandem
