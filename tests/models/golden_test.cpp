// The reference against Hugging Face's logits.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <numeric>

#include "base/json.h"
#include "ir/method_memory.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "models/checkpoint_weights.h"
#include "reference/interpreter.h"
#include "support/npy.h"

namespace tandem {
namespace {

// |difference| <= 5e-5 * std of the file: three times the noise of float32 against float64 (measured by the goldens'
// maker: 1.5e-5), and below what a wrong norm epsilon does (7.7e-5).
constexpr double kTolerance = 5e-5;

std::filesystem::path golden_dir() { return TANDEM_SOURCE_DIR "/tests/data/golden"; }

double standard_deviation(const std::vector<float>& values) {
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  double squares = 0.0;
  for (const float v : values) squares += (v - mean) * (v - mean);
  return std::sqrt(squares / static_cast<double>(values.size()));
}

// Logits of all positions, in one call of a graph of that many tokens.
std::vector<float> reference_logits(const Checkpoint& checkpoint, const std::vector<int32_t>& tokens) {
  auto plan = plan_model(checkpoint);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
  const auto n = static_cast<int64_t>(tokens.size());
  ir::Graph graph = build_graph(*plan, {"prefill", n, n});
  const Status verified = ir::verify(graph);
  EXPECT_TRUE(verified.ok()) << verified.error().message;
  const CheckpointWeights weights(checkpoint, *plan);
  ThreadPool pool(2);
  auto program = make_reference_program({graph}, weights, pool);
  auto memory = MethodMemory::allocate(*program);
  auto context = program->new_context();
  auto* token_buffer = static_cast<int32_t*>(memory->find(*program, 0, "tokens"));
  auto* positions = static_cast<int32_t*>(memory->find(*program, 0, "positions"));
  auto* mask = static_cast<float*>(memory->find(*program, 0, "mask"));
  for (int64_t i = 0; i < n; ++i) {
    token_buffer[i] = tokens[static_cast<size_t>(i)];
    positions[i] = static_cast<int32_t>(i);
    for (int64_t j = 0; j < n; ++j) mask[i * n + j] = j <= i ? 0.0f : -INFINITY;
  }
  memory->bindings(0).rows = n;
  const Status ran = (*context)->run(0, memory->bindings(0));
  EXPECT_TRUE(ran.ok()) << ran.error().message;
  const auto* logits = static_cast<float*>(memory->find(*program, 0, "logits"));
  return {logits, logits + n * plan->vocab_size};
}

struct Case {
  const char* family;
  const char* config;
};

class Golden : public testing::TestWithParam<Case> {};

TEST_P(Golden, LogitsAndGreedyTokensEqualHuggingFace) {
  const std::filesystem::path dir = golden_dir() / GetParam().family;
  auto checkpoint = Checkpoint::open(dir, {GetParam().config});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  std::ifstream file(dir / "golden.json");
  const Json golden = Json::parse(file);
  for (const auto& [length, prompt] : golden["prompts"].items()) {
    const auto expected = test::read_npy(dir / ("logits_" + length + ".npy"));
    const auto got = reference_logits(*checkpoint, prompt.get<std::vector<int32_t>>());
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
    const auto logits = reference_logits(*checkpoint, tokens);
    const auto last = logits.end() - checkpoint->config().vocab_size;
    const auto best = static_cast<int32_t>(std::max_element(last, logits.end()) - last);
    ASSERT_EQ(best, expected);
    tokens.push_back(best);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Golden,
                         testing::Values(Case{"llama2", "config.json"}, Case{"llama2", "config.v5.json"},
                                         Case{"llama3_2", "config.json"}, Case{"llama3_2", "config.v5.json"},
                                         Case{"qwen2_5", "config.json"}, Case{"qwen2_5", "config.v5.json"},
                                         Case{"qwen3", "config.json"}, Case{"qwen3", "config.v5.json"},
                                         Case{"smollm2", "config.json"}, Case{"smollm2", "config.v5.json"}),
                         [](const auto& param_info) {
                           return std::string(param_info.param.family) +
                                  (std::string(param_info.param.config) == "config.json" ? "_hub" : "_v5");
                         });

TEST(PlanModel, RefusesAnotherArchitectureByName) {
  auto checkpoint = Checkpoint::open(golden_dir() / "gemma2");
  ASSERT_TRUE(checkpoint.ok());
  const auto plan = plan_model(*checkpoint);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("Gemma2ForCausalLM"), std::string::npos);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tandem
