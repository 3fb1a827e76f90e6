// The purposes of tensors: derived from the names in old files, and checked by the verifier.
#include "ir/purpose.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/verifier.h"
#include "support/small_graph.h"

namespace tandem::ir {
namespace {

using P = PurposeKind;
using R = TensorRole;

TEST(Purpose, EveryKindHasAName) {
  std::set<std::string_view> names;
  for (int i = 0; i < kPurposeKindCount; ++i) EXPECT_TRUE(names.insert(purpose_kind_name(static_cast<P>(i))).second);
  EXPECT_FALSE(names.contains("unknown"));
  EXPECT_EQ(purpose_kind_name(static_cast<P>(kPurposeKindCount)), "unknown");
}

TEST(PurposeFromName, KnowsTheNamesOfOldFiles) {
  struct Case {
    R role;
    const char* name;
    Purpose purpose;
  };
  const std::vector<Case> cases = {
      {R::kInput, "tokens", {.kind = P::kTokens}},
      {R::kInput, "positions", {.kind = P::kPositions}},
      {R::kInput, "mask", {.kind = P::kMask}},
      {R::kInput, "window_mask.512", {.kind = P::kWindowMask, .limit = 512}},
      {R::kInput, "rope_rows.4096", {.kind = P::kRopeRows, .limit = 4096}},
      {R::kState, "k_cache.3", {.kind = P::kKeyCache, .layer = 3}},
      {R::kState, "v_cache.10.2", {.kind = P::kValueCache, .layer = 10, .kv_head = 2}},
      {R::kState, "k_cache.0.scales", {.kind = P::kKeyScales, .layer = 0}},
      {R::kState, "v_cache.0.scales", {.kind = P::kValueScales, .layer = 0}},
      {R::kOutput, "k_new.3.0", {.kind = P::kNewKeys, .layer = 3, .kv_head = 0}},
      {R::kOutput, "v_new.3", {.kind = P::kNewValues, .layer = 3}},
      {R::kActivation, "k_all.3", {.kind = P::kAllKeys, .layer = 3}},
      {R::kActivation, "layers.3.mlp.residual", {.kind = P::kHidden, .layer = 3}},
      {R::kOutput, "layers.3.mlp.residual", {.kind = P::kHidden, .layer = 3}},
      {R::kActivation, "layers.3.mlp.norm.out", {.layer = 3}},
      {R::kOutput, "logits", {.kind = P::kLogits}},
      {R::kWeight, "embedding", {.kind = P::kEmbedding}},
      {R::kWeight, "head", {.kind = P::kLmHead}},
      {R::kVector, "head.bias", {.kind = P::kLmHead}},
      {R::kActivation, "head.scaled", {.kind = P::kLmHead}},
      {R::kVector, "final_norm.bias", {.kind = P::kFinalNorm}},
      {R::kWeight, "layers.12.mlp.up", {.layer = 12}},
      {R::kVector, "rope.0.inverse_frequency", {}},
      {R::kActivation, "embedding.out", {}},
  };
  for (const Case& c : cases) {
    const auto purpose = purpose_from_name(c.role, c.name);
    ASSERT_TRUE(purpose.ok()) << purpose.error().message;
    EXPECT_EQ(*purpose, c.purpose) << c.name;
    EXPECT_TRUE(verify_purpose(*purpose, c.role).ok()) << c.name;
  }
}

// Names that no old file has, or that look like something else, are refused or have no purpose.
TEST(PurposeFromName, GivesHostileNamesNoPurpose) {
  const std::pair<R, const char*> refused[] = {
      {R::kInput, "window_mask."},      {R::kInput, "window_mask.0"},   {R::kInput, "window_mask.-1"},
      {R::kInput, "window_mask.7x"},    {R::kInput, "window_mask.07"},  {R::kInput, "rope_rows.99999999999999999999"},
      {R::kState, "k_cache."},          {R::kState, "k_cache.x"},       {R::kState, "k_cache.1."},
      {R::kState, "k_cache.1.x"},       {R::kState, "k_cache.1.2.3"},   {R::kState, "k_cache.01"},
      {R::kState, "k_cache..scales"},   {R::kOutput, "k_new.-1"},       {R::kOutput, "v_new.+1"},
      {R::kOutput, "v_new.4294967296"}, {R::kOutput, "k_new.1.scales"}, {R::kOutput, "k_new. 1"},
  };
  for (const auto& [role, name] : refused) {
    const auto purpose = purpose_from_name(role, name);
    ASSERT_FALSE(purpose.ok()) << name;
    EXPECT_NE(purpose.error().message.find(name), std::string::npos) << purpose.error().message;
  }
  const std::pair<R, const char*> unknown[] = {
      {R::kInput, "token"},     {R::kInput, "logits"},         {R::kInput, "k_cache.0"},    {R::kState, "mask"},
      {R::kOutput, "tokens"},   {R::kActivation, "k_new.x"},   {R::kOutput, "embedding"},   {R::kWeight, "header"},
      {R::kWeight, "layers.x"}, {R::kActivation, "layers.3"},  {R::kWeight, "layers.-1.q"}, {R::kState, "logits"},
      {R::kVector, "heads"},    {R::kWeight, "layers.03.mlp"},
  };
  for (const auto& [role, name] : unknown) {
    const auto purpose = purpose_from_name(role, name);
    ASSERT_TRUE(purpose.ok()) << name;
    EXPECT_EQ(*purpose, Purpose{}) << name;
  }
}

TEST(SplitName, GivesLayerAndPart) {
  const auto expect = [](const char* name, int layer, const char* part) {
    const NameParts parts = split_name(name);
    EXPECT_EQ(parts.layer, layer) << name;
    EXPECT_EQ(parts.part, part) << name;
  };
  expect("layers.3.mlp.residual", 3, "mlp.residual");
  expect("k_new.3.0", 3, "k_new");
  expect("v_cache.12", 12, "v_cache");
  expect("layers.x.mlp", -1, "layers.x.mlp");
  expect("logits", -1, "logits");
}

TEST(VerifyPurpose, ChecksRolesLayersHeadsAndLimits) {
  EXPECT_TRUE(verify_purpose({}, R::kState).ok());
  EXPECT_TRUE(verify_purpose({.kind = P::kNewKeys, .layer = 0, .kv_head = 1}, R::kOutput).ok());
  const std::pair<Purpose, R> wrong[] = {
      {{.kind = P::kTokens}, R::kOutput},
      {{.kind = P::kTokens, .layer = 0}, R::kInput},
      {{.kind = P::kKeyCache}, R::kState},
      {{.kind = P::kKeyCache, .layer = 0}, R::kInput},
      {{.kind = P::kKeyCache, .layer = 0, .limit = 1}, R::kState},
      {{.kind = P::kHidden, .layer = 0, .kv_head = 0}, R::kOutput},
      {{.kind = P::kWindowMask}, R::kInput},
      {{.kind = P::kWindowMask, .limit = -5}, R::kInput},
      {{.kind = P::kNone, .layer = -2}, R::kActivation},
      {{.kind = P::kKeyCache, .layer = 0, .kv_head = -2}, R::kState},
      {{.kind = P::kEmbedding}, R::kVector},
      {{.kind = static_cast<P>(200)}, R::kInput},
  };
  for (const auto& [purpose, role] : wrong) {
    EXPECT_FALSE(verify_purpose(purpose, role).ok()) << purpose_kind_name(purpose.kind);
  }
}

TEST(VerifyPurpose, OneTensorForAPurpose) {
  Graph graph = test::small_graph();
  ASSERT_TRUE(verify(graph).ok());
  graph.at(*graph.find("v_cache.0")).purpose.kind = P::kKeyCache;
  const Status status = verify(graph);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("one purpose, key_cache"), std::string::npos) << status.error().message;
}

TEST(Graph, FindsByPurpose) {
  const Graph graph = test::small_graph();
  EXPECT_EQ(graph.at(graph.find(P::kLogits).value()).name, "logits");
  EXPECT_EQ(graph.at(graph.find({.kind = P::kValueCache, .layer = 0}).value()).name, "v_cache.0");
  EXPECT_EQ(graph.find({.kind = P::kValueCache, .layer = 1}), std::nullopt);
  EXPECT_EQ(graph.at(graph.find(P::kLmHead, R::kWeight).value()).name, "head");
  EXPECT_EQ(graph.find(P::kLmHead, R::kVector), std::nullopt);
}

}  // namespace
}  // namespace tandem::ir
