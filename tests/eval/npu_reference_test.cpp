// Phase qdq of an NPU file, without the NPU: its graphs with the weights of the checkpoint.
#include <gtest/gtest.h>

#include "eval/npu_file.h"
#include "reference/interpreter.h"
#include "runtime/method_table.h"
#include "support/edit_checkpoint.h"
#include "weights/fake_quant_weights.h"
#include "weights/sliced_weights.h"
#include "weights/transformed_weights.h"

namespace tandem {
namespace npu_reference_test {

using test::TempFolder;

std::string message_of(const Result<std::unique_ptr<TestedModel>>& model) {
  return model.ok() ? "it was opened" : model.error().message;
}

class NpuReference : public testing::TestWithParam<test::NpuFileOptions> {};

// The same graphs, with weights that are quantized anew at every read.
TEST_P(NpuReference, RunsTheFilesGraphsInTheInterpreter) {
  const TempFolder folder;
  const test::NpuFile file = test::write_npu_file(folder, "a.tdm", GetParam());
  const auto model = test::open_qdq(file.path);
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->phase(), Phase::kQdq);
  EXPECT_EQ(model->context(), test::kNpuContext);
  EXPECT_EQ(model->longest_call(), test::kNpuPrefill);

  const auto checkpoint = Checkpoint::open(test::golden_dir("qwen3"));
  ASSERT_TRUE(checkpoint.ok());
  const auto plan = plan_model(*checkpoint);
  ASSERT_TRUE(plan.ok());
  const auto floats = TransformedWeights::create(*checkpoint, *plan, file.recipe.transforms);
  ASSERT_TRUE(floats.ok()) << floats.error().message;
  const FakeQuantWeights rounded(**floats, file.recipe,
                                 [&](std::string_view name) { return plan->find_weight(name)->cols; });
  const SlicedWeights sliced(rounded);
  ThreadPool pool(1);
  const auto program = make_reference_program(file.methods, sliced, pool);
  const auto table = MethodTable::read(*program, plan->vocab_size);
  ASSERT_TRUE(table.ok()) << table.error().message;
  auto runner = TokenRunner::create(*program, *table);
  ASSERT_TRUE(runner.ok()) << runner.error().message;
  const std::vector<int32_t> tokens = test::some_tokens(19);
  std::vector<float> wanted;
  const Status status = runner->feed(tokens, TokenRunner::Logits::kAll, std::atomic<bool>(false),
                                     [&](size_t, std::span<const float> logits) {
                                       wanted.insert(wanted.end(), logits.begin(), logits.end());
                                       return ok_status();
                                     });
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(test::score_rows(*model, tokens), wanted);
  EXPECT_EQ(test::score_rows(*model, tokens), wanted);  // From cached weights, and after other tokens.
}

INSTANTIATE_TEST_SUITE_P(Forms, NpuReference,
                         testing::Values(test::NpuFileOptions{}, test::NpuFileOptions{.kv = KvFormat::kU16},
                                         test::NpuFileOptions{.attention = *parse_attention_form("sha+k"),
                                                              .trace = false}));

// Rounding to 16 bits and int8 weights cost something, but the model is the same.
TEST(NpuReferenceQuality, IsCloseToFloat) {
  const TempFolder folder;
  const test::NpuFile file = test::write_npu_file(folder, "a.tdm", {.recipe = "w8", .kv = KvFormat::kU16});
  const auto qdq = test::open_qdq(file.path);
  auto exact = test::open_phase(file.path, Phase::kFloat, test::golden_dir("qwen3"));
  ASSERT_TRUE(qdq != nullptr && exact.ok()) << message_of(exact);
  EXPECT_EQ((*exact)->context(), test::kNpuContext);
  const std::vector<int32_t> tokens = test::some_tokens(40);
  const double db = test::sqnr_db(test::score_rows(**exact, tokens), test::score_rows(*qdq, tokens));
  EXPECT_GT(db, 25.0);
  EXPECT_LT(db, 60.0);
}

TEST(NpuReferenceErrors, NeedTheCheckpoint) {
  const TempFolder folder;
  const test::NpuFile file = test::write_npu_file(folder, "a.tdm");
  for (const Phase phase : {Phase::kQdq, Phase::kFloat}) {
    const std::string missing = message_of(test::open_phase(file.path, phase, {}));
    EXPECT_NE(missing.find("`checkpoint`"), std::string::npos) << missing;
    const std::string absent = message_of(test::open_phase(file.path, phase, folder / "absent"));
    EXPECT_NE(absent.find("absent"), std::string::npos) << absent;
    const std::string other = message_of(test::open_phase(file.path, phase, test::golden_dir("llama3_2")));
    EXPECT_NE(other.find("is not the checkpoint that the file was compiled from"), std::string::npos) << other;
  }
}

// Equal names and shapes are not enough.
TEST(NpuReferenceErrors, RefuseAChangedCheckpoint) {
  const TempFolder folder;
  const test::NpuFile file = test::write_npu_file(folder, "a.tdm");
  const std::filesystem::path copy = folder / "copy";
  std::filesystem::copy(test::golden_dir("qwen3"), copy);
  // A copy has other times, but is the same model.
  EXPECT_TRUE(test::open_phase(file.path, Phase::kQdq, copy).ok());
  const auto weights = copy / "model.safetensors";
  auto bytes = test::read_file(weights);
  bytes[bytes.size() - 2] ^= 1;
  test::write_file(weights, bytes);
  const std::string changed = message_of(test::open_phase(file.path, Phase::kQdq, copy));
  EXPECT_NE(changed.find("compile the file again"), std::string::npos) << changed;
}

TEST(NpuReferenceErrors, StopWhenAsked) {
  const TempFolder folder;
  const test::NpuFile file = test::write_npu_file(folder, "a.tdm");
  std::atomic<bool> stop{false};
  TestedModelOptions options;
  options.phase = Phase::kQdq;
  options.checkpoint = test::golden_dir("qwen3");
  options.stop = &stop;
  const auto model = TestedModel::open(file.path, options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  size_t rows = 0;
  const Status status = (*model)->score(test::some_tokens(40), [&](size_t, std::span<const float>) {
    ++rows;
    stop = true;
    return ok_status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(rows, static_cast<size_t>(test::kNpuPrefill));
}

}  // namespace npu_reference_test
}  // namespace tandem
