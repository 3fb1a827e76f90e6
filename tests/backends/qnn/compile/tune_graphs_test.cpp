// The autotuner, with made-up estimates and with the library's.
#include "backends/qnn/compile/tune_graphs.h"

#include <gtest/gtest.h>

#include "backends/qnn/compile/npu_support.h"
#include "base/error.h"
#include "support/temp_folder.h"

namespace tandem {
namespace tune_graphs_test {

using test::TempFolder;

AttentionForm form(std::string_view name) { return *parse_attention_form(name); }

WorkerTask layer_task() {
  WorkerTask task;
  task.job.methods.shapes = {{"decode", 1, 64}, {"prefill_8", 8, 64}};
  task.job.methods.variant.attention.by_tokens = {{1, form("gqa+kv")}, {8, form("sha+k")}};
  task.job.methods.variant.weight_tile_channels = 256;
  task.job.methods.variant.fold_mask = true;
  task.job.weight_sharing = true;
  task.job.shard = {"layers.0-0", 0, 1, false, 0};
  return task;
}

// A library whose estimates are what `cost` says.
struct FakeLibrary {
  std::function<uint64_t(const GraphVariant& variant, int64_t tokens)> cost;
  size_t compiled = 0;

  TaskRunner runner() {
    return [this](const std::vector<WorkerTask>& tasks, const TaskDone& done) -> Status {
      for (size_t i = 0; i < tasks.size(); ++i) {
        ++compiled;
        ShardResult result;
        for (const MethodShape& shape : tasks[i].job.methods.shapes) {
          Estimate estimate;
          estimate.us = cost(tasks[i].job.methods.variant, shape.tokens);
          result.graphs.push_back({shape.name + ".layers.0-0", 1, 0.0, 0.0, estimate});
        }
        TANDEM_TRY(done(i, result));
      }
      return ok_status();
    };
  }
};

TEST(TuneGraphs, TakesTheFastestFormOfEachMethod) {
  FakeLibrary library;
  library.cost = [](const GraphVariant& variant, int64_t tokens) -> uint64_t {
    const AttentionForm of_method = variant.attention.of(tokens);
    if (tokens == 1) return of_method == form("sha") ? 500 : 1000;
    return of_method == form("gqa+v") ? 1500 : 2000;
  };
  const auto tuned = tune_graphs(layer_task(), library.runner());
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(tuned->variant.attention.of(1), form("sha"));
  EXPECT_EQ(tuned->variant.attention.of(8), form("gqa+v"));
  EXPECT_EQ(tuned->variant.weight_tile_channels, 256);
  EXPECT_TRUE(tuned->variant.fold_mask);
  EXPECT_EQ(tuned->compiled, library.compiled) << "no variant is compiled twice";
}

TEST(TuneGraphs, ChangesNothingForALittle) {
  FakeLibrary library;
  library.cost = [](const GraphVariant& variant, int64_t tokens) -> uint64_t {
    const bool usual = variant == layer_task().job.methods.variant;
    return (usual ? 1000 : 980) * static_cast<uint64_t>(tokens);
  };
  const auto tuned = tune_graphs(layer_task(), library.runner());
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(tuned->variant, layer_task().job.methods.variant);
}

// The fastest forms for decode and for prefill have different caches.
TEST(TuneGraphs, MethodsKeepOneKindOfCache) {
  FakeLibrary library;
  library.cost = [](const GraphVariant& variant, int64_t tokens) -> uint64_t {
    const bool splits = variant.attention.of(tokens).splits_cache();
    if (tokens == 1) return splits ? 1000 : 100;
    return splits ? 1000 : 2000;
  };
  const auto tuned = tune_graphs(layer_task(), library.runner());
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_FALSE(tuned->variant.attention.of(1).splits_cache());
  EXPECT_FALSE(tuned->variant.attention.of(8).splits_cache());
}

TEST(TuneGraphs, ChoosesTheSizeOfTransfersAndTheMasksPlace) {
  FakeLibrary library;
  library.cost = [](const GraphVariant& variant, int64_t) -> uint64_t {
    return 1000 + (variant.weight_tile_channels == 128 ? 0 : 500) + (variant.fold_mask ? 200 : 0);
  };
  const auto tuned = tune_graphs(layer_task(), library.runner());
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(tuned->variant.weight_tile_channels, 128);
  // If weights are not shared, they are not split.
  WorkerTask unshared = layer_task();
  unshared.job.weight_sharing = false;
  const auto other = tune_graphs(unshared, library.runner());
  ASSERT_TRUE(other.ok()) << other.error().message;
  EXPECT_EQ(other->variant.weight_tile_channels, 256);
  EXPECT_FALSE(other->variant.fold_mask);
}

TEST(TuneGraphs, WithoutEstimatesItSaysSo) {
  const TaskRunner silent = [](const std::vector<WorkerTask>& tasks, const TaskDone& done) -> Status {
    ShardResult result;
    result.graphs.push_back({"decode." + tasks[0].job.shard.name, 1, 0.0, 0.0, std::nullopt});
    return done(0, result);
  };
  const auto tuned = tune_graphs(layer_task(), silent);
  ASSERT_FALSE(tuned.ok());
  EXPECT_NE(tuned.error().message.find("no estimate"), std::string::npos) << tuned.error().message;
}

TEST(TuningCache, KeepsWhatWasFoundForItsKeyAlone) {
  const TempFolder folder;
  const TuningCache cache(folder / "cache");
  GraphVariant variant = layer_task().job.methods.variant;
  EXPECT_FALSE(cache.find("a key").has_value());
  ASSERT_TRUE(cache.add("a key", variant).ok());
  EXPECT_EQ(cache.find("a key"), variant);
  EXPECT_FALSE(cache.find("another key").has_value());
  // A damaged file is treated as absent.
  for (const auto& entry : std::filesystem::directory_iterator(folder / "cache")) {
    for (const char* text : {"", "{", "[]", "{\"key\": \"a key\"}", "{\"key\": \"a key\", \"variant\": \"{}\"}",
                             "{\"key\": \"other\", \"variant\": \"\"}"}) {
      test::write_file(entry.path(), text);
      EXPECT_FALSE(cache.find("a key").has_value()) << text;
    }
  }
  EXPECT_TRUE(cache.add("a key", variant).ok());
  EXPECT_EQ(cache.find("a key"), variant);
}

TEST(GraphVariantJson, RefusesWhatNobodyWrote) {
  const GraphVariant variant = layer_task().job.methods.variant;
  const auto back = GraphVariant::from_json(variant.to_json());
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(*back, variant);
  for (const char* text : {"", "null", "{}", R"({"attention": {}, "weight_tile": -1, "fold_mask": true})",
                           R"({"attention": {}, "weight_tile": 1e30, "fold_mask": true})",
                           R"({"attention": {"x": "mha"}, "weight_tile": 64, "fold_mask": true})",
                           R"({"attention": {"0": "mha"}, "weight_tile": 64, "fold_mask": true})",
                           R"({"attention": {"1": "mha", "8": "sha"}, "weight_tile": 64, "fold_mask": true})",
                           R"({"attention": {"1": "mqa"}, "weight_tile": 64, "fold_mask": true})",
                           R"({"attention": {"1": 3}, "weight_tile": 64, "fold_mask": true})"}) {
    EXPECT_FALSE(GraphVariant::from_json(text).ok()) << text;
  }
}

TEST(GraphVariants, FormsThatCannotShareACacheAreRefused) {
  GraphVariant variant;
  const std::vector<MethodShape> shapes = {{"decode", 1, 64}, {"prefill_8", 8, 64}};
  EXPECT_TRUE(apply_attention_options(form("gqa"), form("sha"), shapes, variant).ok());
  EXPECT_TRUE(apply_attention_options(form("mha+k"), form("mha"), shapes, variant).ok());
  const Status status = apply_attention_options(form("gqa"), form("mha"), shapes, variant);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("cannot share a cache"), std::string::npos) << status.error().message;
}

// The longest channel decides: one transfer uses at most an eighth of an 8 MB VTCM.
TEST(GraphVariants, TransfersOfWeightsGrowUntilTheyFillTheirShareOfVtcm) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const auto tile = [&](const char* recipe, int64_t ffn, const char* name = "sm8550") {
    const NpuTarget& target = npu_target(name);
    ModelPlan plan = model.plan();
    for (WeightSource& weight : plan.weights) {
      if (weight.name.ends_with(".mlp.down")) weight.cols = ffn;
    }
    return choose_graph_variant(target, plan, *recipe_preset(recipe), {}).weight_tile_channels;
  };
  EXPECT_EQ(tile("w4", 3072), 256);   // Qwen3-0.6B
  EXPECT_EQ(tile("w4", 6144), 256);   // Qwen3-1.7B
  EXPECT_EQ(tile("w4", 9728), 128);   // Qwen3-4B
  EXPECT_EQ(tile("w4", 14336), 128);  // Llama-3-8B
  EXPECT_EQ(tile("w4", 9728, "sa8797"), 128) << "16 MB are no reason for more";
  EXPECT_EQ(tile("w4", 9728, "sm8350"), 64) << "4 MB";
  EXPECT_EQ(tile("w8", 9728), 64);
}

TEST(TuneGraphs, WithTheLibraryAndItsCache) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  CompileOptions options = test::npu_options("w8");
  options.target = "sa8255";
  options.backend["tune-graphs"] = "true";
  options.backend["tune-cache"] = folder / "cache";
  const auto first = test::must_compile(test::golden_dir("qwen3"), folder / "x.tdm", options);
  EXPECT_GE(first.variants_compiled, 12u);
  const auto second = test::must_compile(test::golden_dir("qwen3"), folder / "y.tdm", options);
  EXPECT_EQ(second.variants_compiled, 0u) << "the cache has it";
  EXPECT_EQ(second.graphs, first.graphs);
  EXPECT_EQ(test::read_file(folder / "x.tdm"), test::read_file(folder / "y.tdm"));
}

}  // namespace tune_graphs_test
}  // namespace tandem
