// Calibration: every activation of every method has an encoding that suits the NPU's arithmetic.
#include "compiler/calibration/calibrate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backends/qnn/compile/npu_support.h"
#include "backends/qnn/compile/shard_job.h"
#include "ir/printer.h"
#include "reference/interpreter.h"
#include "support/edit_checkpoint.h"
#include "weights/sliced_weights.h"

namespace tandem {
namespace calibrate_test {

using ir::OpKind;
using ir::TensorRole;

struct CalibrationCase {
  KvFormat kv = KvFormat::kU8;
  RangeMethod method = RangeMethod::kMinMax;
  bool method_given = false;
};

Recipe recipe_with(KvFormat kv) {
  Recipe recipe = *recipe_preset("w8");
  recipe.kv = kv;
  return recipe;
}

Result<Calibration> calibrate_model(const test::OpenedModel& model, const Recipe& recipe,
                                    const CalibrationCase& c = {}) {
  ThreadPool pool(2);
  CalibrationJob job{model.plan(), model.weights(), recipe, c.method, c.method_given, {}, {}, {}};
  for (int sample = 0; sample < 2; ++sample) {
    auto& tokens = job.samples.emplace_back();
    for (int32_t i = 0; i < 24; ++i) tokens.push_back((i * 37 + sample * 11) % 250);
  }
  return calibrate(job, pool);
}

EncodingTable must_calibrate(const test::OpenedModel& model, const Recipe& recipe, const CalibrationCase& c = {}) {
  auto calibration = calibrate_model(model, recipe, c);
  EXPECT_TRUE(calibration.ok()) << calibration.error().message;
  return calibration.ok() ? std::move(calibration->table) : EncodingTable{};
}

StaticMethods methods_of(const AttentionForm& attention = {}) {
  StaticMethods methods;
  methods.shapes = {{"decode", 1, 64}, {"prefill_8", 8, 64}};
  for (const MethodShape& shape : methods.shapes) methods.variant.attention.by_tokens[shape.tokens] = attention;
  methods.trace = true;
  return methods;
}

std::vector<ir::Graph> must_build(const test::OpenedModel& model, const Recipe& recipe, const StaticMethods& methods,
                                  const EncodingTable& table) {
  auto graphs = build_static_methods(model.plan(), recipe, methods, table, {});
  EXPECT_TRUE(graphs.ok()) << graphs.error().message;
  return graphs.ok() ? *std::move(graphs) : std::vector<ir::Graph>{};
}

class Calibrated : public testing::TestWithParam<const char*> {};

TEST_P(Calibrated, EveryActivationOfEveryMethodHasTheSameEncoding) {
  const test::OpenedModel model(test::golden_dir(GetParam()));
  for (const KvFormat kv : {KvFormat::kU8, KvFormat::kU16}) {
    const Recipe recipe = recipe_with(kv);
    const EncodingTable table = must_calibrate(model, recipe, {.kv = kv});
    for (const AttentionForm& attention : all_attention_forms()) {
      SCOPED_TRACE(attention_form_name(attention));
      const auto graphs = must_build(model, recipe, methods_of(attention), table);
      ASSERT_EQ(graphs.size(), 3u) << "two methods, and one that the LM head is extracted from";
      std::map<std::string, ir::Encoding> seen;
      for (const ir::Graph& graph : graphs) {
        for (const ir::Tensor& tensor : graph.tensors) {
          if (tensor.role == TensorRole::kWeight || tensor.role == TensorRole::kVector) continue;
          if (tensor.dtype == DType::kI32) continue;  // Tokens and positions.
          SCOPED_TRACE(graph.name + " " + tensor.name);
          EXPECT_EQ(tensor.encoding.kind, ir::EncodingKind::kPerTensor);
          EXPECT_EQ(seen.try_emplace(tensor.name, tensor.encoding).first->second, tensor.encoding);
          const bool is_kv = tensor.name.starts_with("k_") || tensor.name.starts_with("v_");
          EXPECT_EQ(tensor.dtype, is_kv ? kv_dtype(kv) : DType::kU16);
          // Products of u16 with u8 are exact only with zero point 128.
          if (is_kv) {
            EXPECT_EQ(tensor.encoding.zero_point, kv == KvFormat::kU8 ? 128 : 32768);
          }
        }
      }
    }
  }
}

TEST_P(Calibrated, TheMaskBringsEveryScoreToTheBottom) {
  const test::OpenedModel model(test::golden_dir(GetParam()));
  const Recipe recipe = recipe_with(KvFormat::kU8);
  const EncodingTable table = must_calibrate(model, recipe);
  for (const AttentionForm& attention : all_attention_forms()) {
    int sums = 0;
    for (const ir::Graph& graph : must_build(model, recipe, methods_of(attention), table)) {
      for (const ir::Op& op : graph.ops) {
        const auto range = [&](ir::TensorId id) { return encoded_range(graph.at(id).dtype, graph.at(id).encoding); };
        if (op.kind == OpKind::kAddMask) {
          ++sums;
          EXPECT_LE(range(op.inputs[0]).high + range(op.inputs[1]).low, range(op.outputs[0]).low)
              << graph.at(op.outputs[0]).name;
          EXPECT_EQ(range(op.inputs[1]).high, 0.0f) << "visible scores stay as they are";
        }
        if (op.kind == OpKind::kSoftmax) {
          // In 16 bits, the lowest score has zero weight next to any row's largest.
          const float bottom = range(op.inputs[0]).low * op.attributes.factor;
          EXPECT_LT(std::exp(bottom), 1.0f / 131072.0f);
        }
        if (op.kind == OpKind::kSoftmax || op.kind == OpKind::kSigmoid) {
          EXPECT_EQ(graph.at(op.outputs[0]).encoding, (ir::Encoding{ir::EncodingKind::kPerTensor, 1.0f / 65536.0f, 0}));
        }
      }
    }
    EXPECT_GT(sums, 0);
  }
}

// The cost of the activations' encodings, with unquantized weights: calibrated on the computed tokens.
TEST_P(Calibrated, LosesLittle) {
  const test::OpenedModel model(test::golden_dir(GetParam()));
  const SlicedWeights weights(model.weights());
  const auto prompt = test::golden_prompt(GetParam());
  ThreadPool pool(2);
  std::vector<ir::Graph> graphs;
  for (const MethodShape& shape : methods_of().shapes) graphs.push_back(build_graph(model.plan(), shape));
  const auto exact = test::logits_of(*make_reference_program(graphs, weights, pool), model.plan().vocab_size, prompt);
  for (const KvFormat kv : {KvFormat::kU8, KvFormat::kU16}) {
    const Recipe recipe = recipe_with(kv);
    const CalibrationJob job{model.plan(), model.weights(), recipe, RangeMethod::kMinMax, false, {prompt}, {}, {}};
    const auto calibration = calibrate(job, pool);
    ASSERT_TRUE(calibration.ok()) << calibration.error().message;
    graphs = must_build(model, recipe, methods_of(), calibration->table);
    graphs.pop_back();
    const auto rounded =
        test::logits_of(*make_reference_program(graphs, weights, pool), model.plan().vocab_size, prompt);
    const double db = test::sqnr_db(exact, rounded);
    std::printf("[ sqnr     ] KV %s: %.1f dB\n", std::string(kv_format_name(kv)).c_str(), db);
    EXPECT_GE(db, kv == KvFormat::kU8 ? 25.0 : 60.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Calibrated, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(Calibrate, HoldsWhatWasSeenAndALittleMore) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const EncodingTable table = must_calibrate(model, recipe_with(KvFormat::kU16));
  int observed = 0;
  for (const auto& [name, e] : table.entries()) {
    if (e.method != "minmax") continue;
    ++observed;
    const Interval range = encoded_range(e.dtype, e.encoding);
    EXPECT_LE(range.low, e.observed_min) << name;
    EXPECT_GE(range.high, e.observed_max) << name;
    EXPECT_EQ(e.clipped, 0.0) << name;
    EXPECT_GT(e.sqnr_db, 70.0) << name;
  }
  EXPECT_GT(observed, 30);
}

// A device's rotation saturates at the ends of its input's encoding.
TEST(Calibrate, ARotationsInputHoldsItsOutput) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  Recipe recipe = recipe_with(KvFormat::kU8);
  recipe.transforms.rotate_keys = true;
  const EncodingTable table = must_calibrate(model, recipe);
  for (const AttentionForm& attention : all_attention_forms()) {
    int rotations = 0;
    for (const ir::Graph& graph : must_build(model, recipe, methods_of(attention), table)) {
      for (const ir::Op& op : graph.ops) {
        if (op.kind != OpKind::kHadamard) continue;
        ++rotations;
        const auto range = [&](ir::TensorId id) { return encoded_range(graph.at(id).dtype, graph.at(id).encoding); };
        const float step = graph.at(op.inputs[0]).encoding.scale;  // Zero points are rounded.
        EXPECT_LE(range(op.inputs[0]).low, range(op.outputs[0]).low + step);
        EXPECT_GE(range(op.inputs[0]).high, range(op.outputs[0]).high - step);
      }
    }
    EXPECT_GT(rotations, 0);
  }
}

// Any token may occur, even one that no sample contained.
TEST(Calibrate, HoldsAllOfTheEmbedding) {
  const test::OpenedModel model(test::golden_dir("llama2"));
  const EncodingTable table = must_calibrate(model, recipe_with(KvFormat::kU8));
  const WeightSource& source = *model.plan().find_weight("embedding");
  std::vector<float> values(static_cast<size_t>(source.rows * source.cols));
  ASSERT_TRUE(model.weights().read_rows("embedding", 0, source.rows, values.data()).ok());
  const auto [low, high] = std::ranges::minmax(values);
  const TensorEncoding& e = *table.find("embedding.out");
  EXPECT_LE(encoded_range(e.dtype, e.encoding).low, low);
  EXPECT_GE(encoded_range(e.dtype, e.encoding).high, high);
}

TEST(Calibrate, U8KeysAreClippedUnlessAMethodIsGiven) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const Recipe recipe = recipe_with(KvFormat::kU8);
  EXPECT_EQ(must_calibrate(model, recipe).find("k_new.0")->method, "mse");
  EXPECT_EQ(must_calibrate(model, recipe).find("logits")->method, "minmax");
  const CalibrationCase given{KvFormat::kU8, RangeMethod::kMinMax, true};
  EXPECT_EQ(must_calibrate(model, recipe, given).find("k_new.0")->method, "minmax");
  const CalibrationCase share{KvFormat::kU8, RangeMethod::kPercentile, true};
  EXPECT_EQ(must_calibrate(model, recipe, share).find("layers.0.mlp.residual")->method, "percentile");
}

TEST(Calibrate, IsTheSameEveryTimeAndSurvivesAFile) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const Recipe recipe = recipe_with(KvFormat::kU8);
  const EncodingTable table = must_calibrate(model, recipe);
  EXPECT_TRUE(table == must_calibrate(model, recipe));
  const test::TempFolder folder;
  ASSERT_TRUE(table.save(folder / "encodings.json").ok());
  const auto loaded = EncodingTable::load(folder / "encodings.json");
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_TRUE(*loaded == table);
  const auto before = must_build(model, recipe, methods_of(), table);
  const auto after = must_build(model, recipe, methods_of(), *loaded);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(ir::to_text(before[i]), ir::to_text(after[i]));
}

TEST(Calibrate, HasAPlotOfEveryTensorThatWasLookedAt) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const auto calibration = calibrate_model(model, recipe_with(KvFormat::kU8));
  ASSERT_TRUE(calibration.ok());
  for (const auto& [name, e] : calibration->table.entries()) {
    const bool is_like_another = name.starts_with("k_all") || name.starts_with("v_all") || name.ends_with(".heads");
    if ((e.method != "minmax" && e.method != "mse") || is_like_another) continue;
    // "layers.0.attention.mixed" joins the results of several heads and is observed through them.
    const auto found = calibration->histograms.find(name);
    if (name.ends_with(".mixed")) continue;
    ASSERT_NE(found, calibration->histograms.end()) << name;
    EXPECT_GT(std::accumulate(found->second.begin(), found->second.end(), 0.0), 0.0) << name;
  }
}

TEST(Calibrate, EncodingsOfAnotherModelAreRefused) {
  const test::OpenedModel qwen(test::golden_dir("qwen3")), llama(test::golden_dir("llama2"));
  const Recipe recipe = recipe_with(KvFormat::kU8);
  const EncodingTable table = must_calibrate(llama, recipe);
  const auto graphs = build_static_methods(qwen.plan(), recipe, methods_of(), table, {});
  ASSERT_FALSE(graphs.ok());
  EXPECT_EQ(graphs.error().code, ErrorCode::kInvalidArgument);
  EXPECT_HAS(graphs.error().message, "no entry for \"layers.0.");
  EXPECT_HAS(graphs.error().message, "without `calibration.import_encodings`");
}

TEST(Calibrate, EncodingsOfAnotherKvFormatAreRefused) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const Recipe u8 = recipe_with(KvFormat::kU8), u16 = recipe_with(KvFormat::kU16);
  const auto wide = build_static_methods(model.plan(), u8, methods_of(), must_calibrate(model, u16), {});
  ASSERT_FALSE(wide.ok());
  EXPECT_EQ(wide.error().code, ErrorCode::kInvalidArgument);
  EXPECT_HAS(wide.error().message, "u16");
  EXPECT_HAS(wide.error().message, "`kv` u16");
  const auto narrow = build_static_methods(model.plan(), u16, methods_of(), must_calibrate(model, u8), {});
  ASSERT_FALSE(narrow.ok());
  EXPECT_HAS(narrow.error().message, "`kv` u8");
}

TEST(Calibrate, EncodingsThatTheNpuWouldComputeWronglyWithAreRefused) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  const Recipe recipe = recipe_with(KvFormat::kU8);
  EncodingTable table = must_calibrate(model, recipe);
  TensorEncoding shifted = *table.find("v_new.1");
  shifted.encoding.zero_point = 100;
  ASSERT_TRUE(table.set("v_new.1", shifted).ok());
  auto graphs = build_static_methods(model.plan(), recipe, methods_of(), table, {});
  ASSERT_FALSE(graphs.ok());
  EXPECT_HAS(graphs.error().message, "v_new.1");
  EXPECT_HAS(graphs.error().message, "128");
  table = must_calibrate(model, recipe);
  TensorEncoding narrow = *table.find("layers.0.mlp.residual");
  narrow.dtype = DType::kU8;
  narrow.encoding.zero_point = 100;
  ASSERT_TRUE(table.set("layers.0.mlp.residual", narrow).ok());
  graphs = build_static_methods(model.plan(), recipe, methods_of(), table, {});
  ASSERT_FALSE(graphs.ok());
  EXPECT_HAS(graphs.error().message, "layers.0.mlp.residual");
}

TEST(Calibrate, AModelThatComputesNoNumbersIsRefusedByName) {
  const test::TempFolder folder;
  test::copy_checkpoint(test::golden_dir("qwen3"), folder / "checkpoint");
  ASSERT_TRUE(
      test::overwrite_tensor(folder / "checkpoint", "model.layers.1.mlp.up_proj.weight", std::vector<float>{1, NAN}));
  const test::OpenedModel model(folder / "checkpoint");
  const auto table = calibrate_model(model, recipe_with(KvFormat::kU8));
  ASSERT_FALSE(table.ok());
  EXPECT_HAS(table.error().message, "layers.1.mlp");
}

TEST(Calibrate, NeedsSomethingToLookAtAndStops) {
  const test::OpenedModel model(test::golden_dir("qwen3"));
  ThreadPool pool(1);
  const Recipe recipe = recipe_with(KvFormat::kU8);
  CalibrationJob job{model.plan(), model.weights(), recipe, RangeMethod::kMinMax, false, {}, {}, {}};
  EXPECT_FALSE(calibrate(job, pool).ok());
  job.samples = {{1, 2, 3}};
  int told = 0;
  job.progress = [&](const Progress& p) {
    EXPECT_LE(p.done, p.total);
    ++told;
  };
  job.stop = [&] { return told == 20; };
  const auto stopped = calibrate(job, pool);
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(told, 20);
}

}  // namespace calibrate_test
}  // namespace tandem
