// The reference against Hugging Face's logits.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "base/json.h"
#include "base/try.h"
#include "support/edit_checkpoint.h"
#include "support/npy.h"
#include "support/reference_logits.h"

namespace tandem {
namespace golden_test {

// |difference| <= 5e-5 * the file's standard deviation: three times the noise of float32 against float64 (measured when
// the goldens were made: 1.5e-5), and below the effect of a wrong norm epsilon (7.7e-5).
constexpr double kTolerance = 5e-5;

std::filesystem::path golden_dir() { return TANDEM_SOURCE_DIR "/tests/data/golden"; }

double standard_deviation(const std::vector<float>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0.0;
  for (const float v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Family and config file.
class Golden : public testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(Golden, LogitsAndGreedyTokensEqualHuggingFace) {
  const auto& [family, config] = GetParam();
  const std::filesystem::path dir = golden_dir() / family;
  auto checkpoint = Checkpoint::open(dir, {config});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::ifstream file(dir / "golden.json");
  const Json golden = Json::parse(file);
  for (const auto& [length, prompt] : golden["prompts"].items()) {
    const auto expected = test::read_npy(dir / ("logits_" + length + ".npy"));
    const auto got = test::reference_logits(*checkpoint, prompt.get<std::vector<int32_t>>());
    ASSERT_EQ(got.size(), expected.values.size());
    double worst = 0.0;
    for (size_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(got[i]) - expected.values[i]));
    }
    const double relative = worst / standard_deviation(expected.values);
    EXPECT_LE(relative, kTolerance) << "prompt of " << length;
    RecordProperty("prompt_" + length, std::to_string(relative));
  }
  auto tokens = golden["greedy"]["prompt"].get<std::vector<int32_t>>();
  for (const int32_t expected : golden["greedy"]["new_tokens"].get<std::vector<int32_t>>()) {
    const auto logits = test::reference_logits(*checkpoint, tokens);
    const auto last = logits.end() - checkpoint->config().vocab_size;
    const auto best = static_cast<int32_t>(std::max_element(last, logits.end()) - last);
    ASSERT_EQ(best, expected);
    tokens.push_back(best);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Combine(testing::ValuesIn(test::kGoldenFamilies),
                                          testing::Values("config.json", "config.v5.json")),
                         [](const auto& param_info) {
                           const std::string config = std::get<1>(param_info.param);
                           return std::string(std::get<0>(param_info.param)) +
                                  (config == "config.json" ? "_hub" : "_v5");
                         });

// A copy of a golden checkpoint with keys of config.json set, or removed by null.
Result<ModelPlan> plan_edited(const char* family, const Json& changes) {
  const test::TempFolder folder;
  test::copy_checkpoint(golden_dir() / family, folder.path());
  std::ifstream in(folder / "config.json");
  Json config = Json::parse(in);
  for (const auto& [key, value] : changes.items()) {
    if (value.is_null()) {
      config.erase(key);
    } else {
      config[key] = value;
    }
  }
  std::ofstream(folder / "config.json") << config.dump();
  TANDEM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(folder.path()));
  return plan_model(checkpoint);
}

TEST(PlanModel, RefusesAnotherArchitectureByName) {
  const auto plan = plan_edited("llama2", {{"architectures", {"MixtralForCausalLM"}}, {"model_type", "mixtral"}});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("MixtralForCausalLM"), std::string::npos);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
}

TEST(PlanModel, RefusesNamesThatContradictEachOther) {
  const auto plan = plan_edited("llama2", {{"model_type", "qwen2"}});
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(plan.error().message.find("\"qwen2\""), std::string::npos) << plan.error().message;
  EXPECT_NE(plan.error().message.find("\"LlamaForCausalLM\""), std::string::npos) << plan.error().message;
  EXPECT_FALSE(plan_edited("llama2", {{"model_type", "mixtral"}}).ok()) << "a type of no family of ours";
  // One of them is enough.
  EXPECT_TRUE(plan_edited("llama2", {{"model_type", nullptr}}).ok());
  EXPECT_TRUE(plan_edited("llama2", {{"architectures", nullptr}}).ok());
}

TEST(PlanModel, RefusesWhatItCannotComputeByName) {
  const std::pair<const char*, Json> cases[] = {
      {"gelu", {{"hidden_act", "gelu"}}},  // The exact one; only Gemma means something else by it.
      {"yarn", {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}}}},
      {"bidirectional", {{"use_bidirectional_attention", true}}},
      {"quantized", {{"quantization_config", {{"quant_method", "gptq"}}}}},
  };
  for (const auto& [word, changes] : cases) {
    const auto plan = plan_edited("llama2", changes);
    ASSERT_FALSE(plan.ok()) << word;
    EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported) << plan.error().message;
    EXPECT_NE(plan.error().message.find(word), std::string::npos) << plan.error().message;
  }
}

TEST(PlanModel, KeysThatCouldChangeTheMathsAreReported) {
  const auto plan = plan_edited("llama2", {{"attention_temperature", 2.0}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  ASSERT_EQ(plan->warnings.size(), 1u);
  EXPECT_NE(plan->warnings[0].find("attention_temperature"), std::string::npos);
}

TEST(PlanModel, FamiliesHaveTheirDefaults) {
  const auto gemma2 = plan_edited("gemma2", {{"attn_logit_softcapping", nullptr}, {"sliding_window", nullptr}});
  ASSERT_TRUE(gemma2.ok()) << gemma2.error().message;
  EXPECT_EQ(gemma2->attention_softcap, 50.0f);
  EXPECT_EQ(gemma2->layers[0].window, 4096);
  EXPECT_EQ(gemma2->layers[1].window, 0);

  const auto gemma3 = plan_edited("gemma3", {{"sliding_window_pattern", nullptr}, {"rope_local_base_freq", nullptr}});
  ASSERT_TRUE(gemma3.ok()) << gemma3.error().message;
  for (const LayerPlan& layer : gemma3->layers) {
    EXPECT_EQ(layer.window, 12);  // Four layers; the sixth would be the first without.
    EXPECT_EQ(layer.rope_table, 1);
  }

  const auto smollm3 = plan_edited("smollm3", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", nullptr}});
  ASSERT_TRUE(smollm3.ok()) << smollm3.error().message;
  EXPECT_EQ(smollm3->layers[2].rope_table, 0);
  EXPECT_EQ(smollm3->layers[3].rope_table, -1);

  const auto gemma = plan_edited("gemma", {{"hidden_act", "gelu"}, {"hidden_activation", nullptr}});
  ASSERT_TRUE(gemma.ok()) << gemma.error().message;
  EXPECT_EQ(gemma->activation, Activation::kGeluTanh);
}

TEST(PlanModel, LongropeNeedsAFactorForEachPair) {
  const auto plan = plan_edited("phi4_mini", {{"partial_rotary_factor", 0.5}});
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("short_factor"), std::string::npos) << plan.error().message;
}

}  // namespace golden_test
}  // namespace tandem
