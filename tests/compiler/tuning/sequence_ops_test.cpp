// Whole sequences, op by op, against Hugging Face's logits of every family; and where a layer is cut.
#include "compiler/tuning/sequence_ops.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/json.h"
#include "compiler/tuning/layer_stages.h"
#include "models/builder.h"
#include "support/compiled_model.h"
#include "support/golden.h"
#include "support/npy.h"
#include "weights/checkpoint_weights.h"

namespace tandem {
namespace sequence_ops_test {

class SequenceOpsOfFamily : public testing::TestWithParam<const char*> {};

// The golden prompt between two others: neighbours in the same rows must not be seen.
TEST_P(SequenceOpsOfFamily, GivesHuggingFaceLogits) {
  const auto folder = test::golden_dir(GetParam());
  std::ifstream file(folder / "golden.json");
  const auto tokens = Json::parse(file)["prompts"]["40"].get<std::vector<int32_t>>();
  const std::vector<float> wanted = test::read_npy(folder / "logits_40.npy").values;
  const auto checkpoint = Checkpoint::open(folder, {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto plan = plan_model(*checkpoint);
  ASSERT_TRUE(plan.ok());
  ThreadPool pool(2);
  const ir::Graph graph = build_graph(*plan, {"test", 1, 40});
  SequenceOps ops(graph, 40, pool);
  const CheckpointWeights weights(*checkpoint, *plan);
  FloatMatrices matrices(weights, pool);
  const std::vector<std::vector<int32_t>> sequences = {{5, 6, 7}, tokens, {9, 8}};
  const std::vector<SequenceRows> runs = group_sequences(sequences, 1000);
  ASSERT_EQ(runs.size(), 1u);
  RowValues values;
  // In two parts, as tuning does.
  const std::vector<LayerStages> layers = plan_stages(graph);
  ASSERT_EQ(layers.size(), plan->layers.size());
  const size_t middle = layers[0].stages[1].end;
  ASSERT_TRUE(ops.run(0, middle, runs[0], matrices, values).ok());
  matrices.forget();
  ASSERT_TRUE(ops.run(middle, graph.ops.size(), runs[0], matrices, values).ok());
  const auto& logits = values[static_cast<size_t>(*graph.find(ir::PurposeKind::kLogits))];
  const auto width = static_cast<size_t>(plan->vocab_size);
  ASSERT_EQ(logits.size(), 45 * width);
  float largest = 0.0f, worst = 0.0f;
  for (size_t i = 0; i < wanted.size(); ++i) {
    largest = std::max(largest, std::abs(wanted[i]));
    worst = std::max(worst, std::abs(wanted[i] - logits[3 * width + i]));
  }
  // Float sums in another order than PyTorch's.
  EXPECT_LT(worst, 2e-5f * largest);
}

INSTANTIATE_TEST_SUITE_P(Families, SequenceOpsOfFamily, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(LayerStages, CutWhereLinearLayersBegin) {
  const auto checkpoint = Checkpoint::open(test::golden_dir("llama2"), {});
  ASSERT_TRUE(checkpoint.ok());
  const auto plan = plan_model(*checkpoint);
  ASSERT_TRUE(plan.ok());
  const ir::Graph graph = build_graph(*plan, {"test", 1, 8});
  const LayerStages layer = plan_stages(graph)[0];
  std::vector<size_t> sizes;
  for (const Stage& stage : layer.stages) sizes.push_back(stage.linears.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{3, 1, 2, 1, 0}));  // q k v, o, gate up, down
  for (size_t i = 1; i < layer.stages.size(); ++i) EXPECT_EQ(layer.stages[i].begin, layer.stages[i - 1].end);
  EXPECT_EQ(graph.at(layer.stages[1].residual).name, "embedding.out");
  EXPECT_EQ(graph.at(layer.stages[3].residual).name, "layers.0.attention.residual");
  EXPECT_EQ(layer.stages[0].residual, -1);
  EXPECT_EQ(graph.at(layer.output).name, "layers.0.mlp.residual");
}

}  // namespace sequence_ops_test
}  // namespace tandem
