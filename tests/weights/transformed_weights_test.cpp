// Transformed weights against Hugging Face's logits: the float model computes the same with them.
#include "weights/transformed_weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "base/json.h"
#include "quant/recipe.h"
#include "support/edit_checkpoint.h"
#include "support/golden.h"
#include "support/npy.h"
#include "support/reference_logits.h"
#include "weights/fake_quant_weights.h"
#include "weights/transform_rules.h"

namespace tandem {
namespace transformed_weights_test {

std::filesystem::path golden_folder(const std::string& family) {
  return std::filesystem::path(TANDEM_SOURCE_DIR "/tests/data/golden") / family;
}

struct Case {
  const char* name;
  Transforms transforms;
};

constexpr Transforms kAll = {.fold_norms = true,
                             .rotate_residual = true,
                             .rotate_values = true,
                             .equalize_keys = true,
                             .equalize_values = true,
                             .equalize_mlp = true};
// What the presets have.
constexpr Transforms kBalanced = {
    .fold_norms = true, .equalize_norms = true, .equalize_keys = true, .equalize_values = true, .equalize_mlp = true};
constexpr Case kCases[] = {{"fold_norms", {.fold_norms = true}},
                           {"r1", {.rotate_residual = true}},
                           {"r2", {.rotate_values = true}},
                           {"keys", {.equalize_keys = true}},
                           {"norms", {.equalize_norms = true}},
                           {"values", {.equalize_values = true}},
                           {"mlp", {.equalize_mlp = true}},
                           {"all", kAll},
                           {"balanced", kBalanced}};

struct Golden {
  std::vector<int32_t> tokens;
  std::vector<float> logits;
};
Golden read_golden(const std::string& family) {
  std::ifstream file(golden_folder(family) / "golden.json");
  const Json golden = Json::parse(file);
  return {golden["prompts"]["40"].get<std::vector<int32_t>>(),
          test::read_npy(golden_folder(family) / "logits_40.npy").values};
}

// The largest difference, relative to the largest logit.
double difference(const std::vector<float>& got, const std::vector<float>& expected) {
  double worst = 0.0, most = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected[i]));
    most = std::max(most, std::abs(static_cast<double>(expected[i])));
  }
  return worst / most;
}

class TransformedGolden : public testing::TestWithParam<const char*> {};

// 1e-5 of the largest logit: float32 itself differs from Hugging Face's float64 logits by up to 4e-6 of it.
TEST_P(TransformedGolden, FloatLogitsEqualHuggingFace) {
  auto checkpoint = Checkpoint::open(golden_folder(GetParam()), {"config.json"});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto plan = plan_model(*checkpoint);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  const Golden golden = read_golden(GetParam());
  for (const Case& c : kCases) {
    const auto weights = TransformedWeights::create(*checkpoint, *plan, c.transforms);
    ASSERT_TRUE(weights.ok()) << weights.error().message;
    const double worst = difference(test::reference_logits(*plan, **weights, golden.tokens), golden.logits);
    EXPECT_LE(worst, 1e-5) << c.name;
    RecordProperty(c.name, std::to_string(worst * 1e6));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, TransformedGolden, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

// Root mean square of the difference, relative to the logits' own.
double relative_error(const std::vector<float>& got, const std::vector<float>& expected) {
  double noise = 0.0, signal = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    noise += (static_cast<double>(got[i]) - expected[i]) * (static_cast<double>(got[i]) - expected[i]);
    signal += static_cast<double>(expected[i]) * expected[i];
  }
  return std::sqrt(noise / signal);
}

// Of a checkpoint with the weights of the preset w4 after these transforms.
double error_at_w4(const std::filesystem::path& folder, const Transforms& transforms, const Golden& golden) {
  auto checkpoint = Checkpoint::open(folder, {"config.json"});
  EXPECT_TRUE(checkpoint.ok());
  const auto plan = plan_model(*checkpoint);
  const auto weights = TransformedWeights::create(*checkpoint, *plan, transforms);
  EXPECT_TRUE(weights.ok());
  const Recipe w4 = *recipe_preset("w4");
  const FakeQuantWeights rounded(**weights, w4, [&](std::string_view name) { return plan->find_weight(name)->cols; });
  return relative_error(test::reference_logits(*plan, rounded, golden.tokens), golden.logits);
}

// The weights of the goldens are random, so there is little to gain; nothing may be lost. One model's error scatters by
// a tenth with the rounding's luck, that of all of them together by a few percent. Their norms are random, too, and
// match nothing in the columns behind them, so folding alone adds to the spread of those.
TEST(TransformedWeights, W4LosesNoMoreThanWithoutThem) {
  for (const Case& c : kCases) {
    double log_ratios = 0.0;
    for (const char* family : test::kGoldenFamilies) {
      const Golden golden = read_golden(family);
      const double before = error_at_w4(golden_folder(family), {}, golden);
      const double after = error_at_w4(golden_folder(family), c.transforms, golden);
      EXPECT_LE(after, 1.35 * before) << c.name << " of " << family;
      log_ratios += std::log(after / before);
    }
    const double ratio = std::exp(log_ratios / static_cast<double>(std::size(test::kGoldenFamilies)));
    // Of all of them, three families leave the rotation out and keep the folding.
    const bool folds_only = c.transforms.fold_norms && !c.transforms.equalize_norms;
    EXPECT_LE(ratio, folds_only ? 1.08 : 1.03) << c.name;
    RecordProperty(c.name, std::to_string(ratio));
  }
}

// ---- Outlier channels ----

constexpr const char* kReaders[2][3] = {{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
                                        {"mlp.gate_proj", "mlp.up_proj", nullptr}};

void scale_column(std::vector<float>& matrix, size_t cols, size_t column, float factor) {
  for (size_t i = column; i < matrix.size(); i += cols) matrix[i] *= factor;
}

// Multiplies every seventh channel of each norm, and divides the columns behind it.
void spike_norms(const std::filesystem::path& folder, int64_t layers, float factor) {
  const char* norms[] = {"input_layernorm", "post_attention_layernorm"};
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    for (size_t n = 0; n < 2; ++n) {
      std::vector<float> norm = test::read_tensor(folder, prefix + norms[n] + ".weight");
      for (size_t c = 3; c < norm.size(); c += 7) norm[c] *= factor;
      ASSERT_TRUE(test::overwrite_tensor(folder, prefix + norms[n] + ".weight", norm));
      for (const char* reader : kReaders[n]) {
        if (reader == nullptr) continue;
        const std::string name = prefix + reader + ".weight";
        std::vector<float> matrix = test::read_tensor(folder, name);
        for (size_t c = 3; c < norm.size(); c += 7) scale_column(matrix, norm.size(), c, 1.0f / factor);
        ASSERT_TRUE(test::overwrite_tensor(folder, name, matrix));
      }
    }
  }
}

// Multiplies every ninth row of up, and divides the column of down that reads it; the same for v and o, which have as
// many heads here.
void spike_pairs(const std::filesystem::path& folder, int64_t layers, float factor) {
  const char* pairs[2][2] = {{"mlp.up_proj", "mlp.down_proj"}, {"self_attn.v_proj", "self_attn.o_proj"}};
  for (int64_t layer = 0; layer < layers; ++layer) {
    for (const auto& [first, second] : pairs) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      std::vector<float> rows = test::read_tensor(folder, prefix + first + ".weight");
      std::vector<float> columns = test::read_tensor(folder, prefix + second + ".weight");
      const size_t width = test::read_tensor(folder, prefix + "input_layernorm.weight").size();
      const size_t channels = rows.size() / width;
      for (size_t c = 4; c < channels; c += 9) {
        for (size_t i = 0; i < width; ++i) rows[c * width + i] *= factor;
        scale_column(columns, channels, c, 1.0f / factor);
      }
      ASSERT_TRUE(test::overwrite_tensor(folder, prefix + first + ".weight", rows));
      ASSERT_TRUE(test::overwrite_tensor(folder, prefix + second + ".weight", columns));
    }
  }
}

struct Spiky {
  test::TempFolder folder;
  std::filesystem::path checkpoint;
  int64_t layers = 0;
};
void copy_llama(Spiky& spiky) {
  spiky.checkpoint = spiky.folder / "llama2";
  test::copy_checkpoint(golden_folder("llama2"), spiky.checkpoint);
  const auto checkpoint = Checkpoint::open(spiky.checkpoint, {"config.json"});
  ASSERT_TRUE(checkpoint.ok());
  spiky.layers = checkpoint->config().num_layers;
  ASSERT_EQ(checkpoint->config().num_heads, checkpoint->config().num_kv_heads);
}

TEST(TransformedWeights, SpikesOfNormsLeaveNoTraceInTheQuantizedValues) {
  Spiky spiky;
  copy_llama(spiky);
  spike_norms(spiky.checkpoint, spiky.layers, 32.0f);  // A power of two: no mantissa changes.
  auto plain = Checkpoint::open(golden_folder("llama2"), {"config.json"});
  auto edited = Checkpoint::open(spiky.checkpoint, {"config.json"});
  ASSERT_TRUE(plain.ok() && edited.ok());
  const auto plan = plan_model(*plain), edited_plan = plan_model(*edited);
  ThreadPool pool(1);
  for (const Transforms& transforms : {Transforms{.fold_norms = true}, kBalanced, kAll}) {
    const auto a = TransformedWeights::create(*plain, *plan, transforms);
    const auto b = TransformedWeights::create(*edited, *edited_plan, transforms);
    ASSERT_TRUE(a.ok() && b.ok());
    for (const WeightSource& source : plan->weights) {
      std::vector<float> wanted(static_cast<size_t>(source.rows * source.cols)), got(wanted.size());
      ASSERT_TRUE((*a)->read_rows(source.name, 0, source.rows, wanted.data()).ok());
      ASSERT_TRUE((*b)->read_rows(source.name, 0, source.rows, got.data()).ok());
      const auto want = quantize_matrix(wanted.data(), source.rows, source.cols, WeightSpec(), pool);
      const auto have = quantize_matrix(got.data(), source.rows, source.cols, WeightSpec(), pool);
      ASSERT_TRUE(want.ok() && have.ok());
      EXPECT_EQ(want->quantized, have->quantized) << source.name;
      EXPECT_EQ(want->multipliers, have->multipliers) << source.name;
    }
    for (const VectorSource& source : plan->vectors) {
      EXPECT_EQ(*(*a)->read_vector(source.name), *(*b)->read_vector(source.name)) << source.name;
    }
  }
}

TEST(TransformedWeights, SpikesBetweenTwoLayersAreUndone) {
  const Golden golden = read_golden("llama2");
  Spiky spiky;
  copy_llama(spiky);
  spike_pairs(spiky.checkpoint, spiky.layers, 40.0f);
  const double plain = error_at_w4(golden_folder("llama2"), kBalanced, golden);
  EXPECT_GE(error_at_w4(spiky.checkpoint, {}, golden), 2.0 * plain) << "the spikes are none";
  EXPECT_LE(error_at_w4(spiky.checkpoint, kBalanced, golden), 1.15 * plain);
}

// ---- Reading ----

TEST(TransformedWeights, RowsAreTheSameInAnyOrderAndPortions) {
  auto checkpoint = Checkpoint::open(golden_folder("qwen2_5"), {"config.json"});
  const auto plan = plan_model(*checkpoint);
  const auto weights = TransformedWeights::create(*checkpoint, *plan, kAll);
  ASSERT_TRUE(weights.ok()) << weights.error().message;
  std::map<std::string, std::vector<float>> whole;
  for (const WeightSource& source : plan->weights) {
    auto& values = whole[source.name];
    values.resize(static_cast<size_t>(source.rows * source.cols));
    ASSERT_TRUE((*weights)->read_rows(source.name, 0, source.rows, values.data()).ok());
  }
  ThreadPool pool(4);
  std::vector<std::string> wrong(plan->weights.size());
  pool.run(static_cast<int64_t>(plan->weights.size()), [&](int64_t i, int) {
    const WeightSource& source = plan->weights[plan->weights.size() - 1 - static_cast<size_t>(i)];
    std::vector<float> row(static_cast<size_t>(source.cols));
    for (int64_t r = source.rows - 1; r >= 0; --r) {
      const Status status = (*weights)->read_rows(source.name, r, 1, row.data());
      if (!status.ok() ||
          !std::ranges::equal(
              row, std::span(whole[source.name]).subspan(static_cast<size_t>(r * source.cols), row.size()))) {
        wrong[static_cast<size_t>(i)] = source.name;
      }
    }
  });
  for (const std::string& name : wrong) EXPECT_EQ(name, "");
  std::vector<float> row(static_cast<size_t>(plan->hidden_size));
  EXPECT_FALSE((*weights)->read_rows("layers.0.attention.o", plan->hidden_size, 1, row.data()).ok());
  EXPECT_FALSE((*weights)->read_rows("layers.0.attention.q", -1, 1, row.data()).ok());
  EXPECT_FALSE((*weights)->read_rows("nonsense", 0, 1, row.data()).ok());
}

// ---- What a family does not allow ----

std::vector<std::string> notes_for(const char* family, const Transforms& transforms, Transforms& applied) {
  auto checkpoint = Checkpoint::open(golden_folder(family), {"config.json"});
  const auto plan = plan_model(*checkpoint);
  std::vector<std::string> notes;
  applied = applicable_transforms(*plan, transforms, notes);
  return notes;
}

TEST(TransformRules, WhatWouldChangeTheModelIsLeftOutWithANote) {
  Transforms applied;
  EXPECT_TRUE(notes_for("llama3_2", kAll, applied).empty());
  EXPECT_EQ(applied, kAll);
  for (const char* family : {"gemma2", "gemma3", "glm4_0414"}) {
    const auto notes = notes_for(family, kAll, applied);
    ASSERT_EQ(notes.size(), 1u) << family;
    EXPECT_NE(notes[0].find("r1"), std::string::npos) << notes[0];
    EXPECT_NE(notes[0].find("norms at their ends"), std::string::npos) << notes[0];
    EXPECT_FALSE(applied.rotate_residual);
    EXPECT_TRUE(applied.rotate_values && applied.fold_norms && applied.equalize_mlp);
  }
  const auto notes = notes_for("codegen", kAll, applied);
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_NE(notes[0].find("LayerNorms"), std::string::npos) << notes[0];
  EXPECT_NE(notes[1].find("no gate"), std::string::npos) << notes[1];
}

TEST(TransformRules, WhatATransformNeedsIsSet) {
  Transforms applied;
  EXPECT_TRUE(notes_for("llama2", {.rotate_residual = true}, applied).empty());
  EXPECT_TRUE(applied.fold_norms);
  EXPECT_TRUE(notes_for("llama2", {.equalize_norms = true}, applied).empty());
  EXPECT_TRUE(applied.fold_norms);
  EXPECT_TRUE(notes_for("llama2", {.rotate_values = true}, applied).empty());
  EXPECT_FALSE(applied.fold_norms);
  EXPECT_EQ(notes_for("llama2", {.rotate_residual = true, .equalize_norms = true}, applied).size(), 1u);
  EXPECT_FALSE(applied.equalize_norms);
}

}  // namespace transformed_weights_test
}  // namespace tandem
