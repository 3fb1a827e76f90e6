// Which layers go into which binary, for models of all sizes.
#include "backends/qnn/compile/shard_plan.h"

#include <gtest/gtest.h>

#include "backends/qnn/compile/npu_support.h"
#include "backends/qnn/compile/npu_targets.h"

namespace tandem {
namespace shard_plan_test {

// The parts of a plan that sizes depend on.
ModelPlan model(int64_t layers, int64_t hidden, int64_t ffn, int64_t vocabulary) {
  ModelPlan plan;
  plan.layers.resize(static_cast<size_t>(layers));
  plan.hidden_size = hidden;
  plan.vocab_size = vocabulary;
  plan.weights.push_back({"embedding", vocabulary, hidden, {}});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string layer = "layers." + std::to_string(l) + ".";
    for (const char* name : {"attention.q", "attention.o"}) plan.weights.push_back({layer + name, hidden, hidden, {}});
    for (const char* name : {"mlp.gate", "mlp.up"}) plan.weights.push_back({layer + name, ffn, hidden, {}});
    plan.weights.push_back({layer + "mlp.down", hidden, ffn, {}});
    for (size_t w = plan.weights.size() - 5; w < plan.weights.size(); ++w)
      plan.weights[w].purpose.layer = static_cast<int32_t>(l);
  }
  plan.weights.push_back({"head", vocabulary, hidden, {}});
  plan.weights.back().purpose.kind = ir::PurposeKind::kLmHead;
  return plan;
}
// The shapes of Qwen3-4B, except the keys and values.
ModelPlan model_4b() { return model(36, 2560, 9728, 151'936); }

std::vector<ShardRange> plan(const ModelPlan& model, int shards = 0, size_t weight_sets = 1,
                             const char* recipe = "w4") {
  auto planned = plan_shards(model, *recipe_preset(recipe), {shards, weight_sets});
  EXPECT_TRUE(planned.ok()) << planned.error().message;
  return planned.ok() ? *planned : std::vector<ShardRange>{};
}

// Every layer once, in order; one LM head, at the end.
void expect_whole(const std::vector<ShardRange>& shards, int64_t layers) {
  int64_t next = 0;
  for (const ShardRange& shard : shards) {
    EXPECT_EQ(shard.layer_begin, next) << shard.name;
    EXPECT_EQ(shard.head, &shard == &shards.back()) << shard.name;
    EXPECT_TRUE(shard.has_layers() || shard.name == "head");
    EXPECT_GT(shard.estimated_bytes, 0u);
    next = shard.layer_end;
  }
  EXPECT_EQ(next, layers);
}

TEST(PlanShards, ASmallModelIsOneShard) {
  const test::OpenedModel demo(test::demo_dir());
  const auto shards = plan(demo.plan());
  ASSERT_EQ(shards.size(), 1u);
  EXPECT_EQ(shards[0].name, "layers.0-5+head");
  expect_whole(shards, 6);
  // 4 bits a weight and a little more.
  const double layers = 6.0 * (256 * 256 * 2 + 2 * 128 * 256 + 3 * 768 * 256);
  EXPECT_NEAR(static_cast<double>(shards[0].estimated_bytes), 0.54 * layers + 1.02 * 2048 * 256, 0.02 * layers);
}

TEST(PlanShards, ALargeModelIsCutToTheSizeThatCompilesWell) {
  uint64_t before = 0;
  for (const auto& [sets, recipe] : {std::pair<size_t, const char*>{1, "w4"}, {2, "w4"}, {2, "w8"}}) {
    SCOPED_TRACE(std::to_string(sets) + " sets, " + recipe);
    const auto shards = plan(model_4b(), 0, sets, recipe);
    expect_whole(shards, 36);
    EXPECT_EQ(shards.back().name, "head") << "389 MB of its own are compiled alone";
    EXPECT_EQ(shards.back().estimated_bytes, static_cast<uint64_t>(1.02 * 151'936 * 2560)) << "it is there once";
    uint64_t total = 0, largest = 0;
    int64_t most = 0;
    for (const ShardRange& shard : shards) {
      if (!shard.has_layers()) continue;
      total += shard.estimated_bytes;
      largest = std::max(largest, shard.estimated_bytes);
      most = std::max(most, shard.layer_end - shard.layer_begin);
    }
    // One layer more than the limit if the number of layers is not a multiple of the shards', and no shard too many.
    EXPECT_LE(largest, kPreferredShardBytes + total / 36);
    EXPECT_LE(most, kPreferredShardLayers);
    const uint64_t by_size = total / kPreferredShardBytes + 1, by_layers = 36 / kPreferredShardLayers + 1;
    EXPECT_LE(shards.size() - 1, std::max(by_size, by_layers));
    EXPECT_GT(total, before * 17 / 10) << "twice the weights, or twice the bits";
    before = total;
  }
}

// Time grows faster than the number of layers, even if they are small.
TEST(PlanShards, ManySmallLayersAreCutToo) {
  const auto shards = plan(model(30, 576, 1536, 49'152));
  expect_whole(shards, 30);
  EXPECT_EQ(static_cast<int64_t>(shards.size()), (30 + kPreferredShardLayers - 1) / kPreferredShardLayers);
  EXPECT_TRUE(shards.back().has_layers()) << "an LM head of 29 MB needs no shard of its own";
}

TEST(PlanShards, AForcedNumberIsTheNumber) {
  const test::OpenedModel demo(test::demo_dir());
  for (int wanted = 1; wanted <= 7; ++wanted) {
    const auto shards = plan(demo.plan(), wanted);
    ASSERT_EQ(shards.size(), static_cast<size_t>(wanted));
    expect_whole(shards, 6);
  }
  EXPECT_EQ(plan(demo.plan(), 3)[2].name, "layers.4-5+head");
  EXPECT_EQ(plan(demo.plan(), 7)[6].name, "head") << "more shards than layers";
  for (int wanted = 2; wanted <= 37; ++wanted) {
    const auto shards = plan(model_4b(), wanted);
    ASSERT_EQ(shards.size(), static_cast<size_t>(wanted));
    expect_whole(shards, 36);
  }
}

TEST(PlanShards, RefusesNumbersThatAreNone) {
  const test::OpenedModel demo(test::demo_dir());
  for (const int wanted : {8, 1000, -1, INT32_MIN, INT32_MAX}) {
    const auto planned = plan_shards(demo.plan(), Recipe(), {wanted, 1});
    ASSERT_FALSE(planned.ok()) << wanted;
    EXPECT_EQ(planned.error().code, ErrorCode::kInvalidArgument);
    EXPECT_HAS(planned.error().message, std::to_string(wanted) + " shards are not possible");
    EXPECT_HAS(planned.error().message, "6 layers");
    EXPECT_HAS(planned.error().message, "`shards` 1 to 7");
  }
}

TEST(PlanShards, RefusesWhatNoDeviceLoads) {
  const auto one = plan_shards(model_4b(), Recipe(), {1, 1});
  ASSERT_FALSE(one.ok()) << "2.1 GB in one binary";
  EXPECT_EQ(one.error().code, ErrorCode::kResourceExhausted);
  EXPECT_HAS(one.error().message, "layers.0-35+head");
  EXPECT_HAS(one.error().message, "1907 MB");
  EXPECT_HAS(one.error().message, "more `shards`");
  // An LM head that is too large stays so with any number of shards.
  const auto wide = plan_shards(model(4, 8192, 8192, 1'000'000), Recipe(), {0, 1});
  ASSERT_FALSE(wide.ok());
  EXPECT_HAS(wide.error().message, "the shard head would be 7968 MB");
}

// Qwen3-4B in one binary loads on Snapdragon 8 Elite.
TEST(PlanShards, WhatTheUserAsksForIsAllowedUpToTheCompilersLimit) {
  const ShardOptions asked = {.shards = 1, .largest = kNpuGraphLimit};
  const auto one = plan_shards(model_4b(), Recipe(), asked);
  ASSERT_TRUE(one.ok()) << one.error().message;
  ASSERT_EQ(one->size(), 1u);
  EXPECT_GT((*one)[0].estimated_bytes, kNpuShardLimit);
  const auto eight = plan_shards(model_4b(), *recipe_preset("w8"), asked);
  ASSERT_TRUE(eight.ok()) << eight.error().message;
  EXPECT_GT((*eight)[0].estimated_bytes, uint64_t{INT32_MAX});
  const auto half = plan_shards(model_4b(), *recipe_preset("fp16"), asked);
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().code, ErrorCode::kResourceExhausted);
  EXPECT_HAS(half.error().message, "more than the 3584 MB that a binary can have");
  // 32-bit sizes would wrap around.
  const auto many = plan_shards(model(36, 8192, 28'672, 151'936), Recipe(), asked);
  ASSERT_FALSE(many.ok());
  EXPECT_HAS(many.error().message, "layers.0-35+head would be 1");
  const auto graph =
      plan_shards(model_4b(), Recipe(), {.shards = 1, .largest = kNpuGraphLimit, .largest_graph = 1 << 30});
  ASSERT_FALSE(graph.ok());
  EXPECT_HAS(graph.error().message, "a graph of the shard layers.0-35+head");
  EXPECT_HAS(graph.error().message, "the 1024 MB that Qualcomm's compiler takes");
}

}  // namespace shard_plan_test
}  // namespace tandem
