// Session::embed(): the hidden states that the LM head multiplies.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/registry/registry.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "runtime/hidden_output.h"
#include "runtime/loaded_engine.h"
#include "support/compiled_model.h"
#include "support/npy.h"

namespace tandem {
namespace embed_test {

std::vector<float> embed(Session& session, std::span<const int32_t> tokens) {
  std::vector<float> rows;
  size_t next = 0;
  const Status status = session.embed(tokens, [&](size_t index, std::span<const float> hidden) {
    EXPECT_EQ(index, next++);
    rows.insert(rows.end(), hidden.begin(), hidden.end());
    return ok_status();
  });
  EXPECT_TRUE(status.ok()) << status.error().message;
  EXPECT_EQ(next, tokens.size());
  return rows;
}

std::vector<float> embed_file(const std::filesystem::path& path, std::span<const int32_t> tokens) {
  const auto engine = test::load_engine(path);
  return engine == nullptr ? std::vector<float>() : embed(*test::new_session(*engine), tokens);
}

std::vector<float> floats_of(const Checkpoint& checkpoint, const std::string& name) {
  const auto view = checkpoint.tensor(name);
  EXPECT_TRUE(view.ok()) << name;
  return view.ok() ? read_tensor_f32(*view).value() : std::vector<float>();
}

// The LM head of a checkpoint, applied to hidden states in double precision.
std::vector<float> apply_head(const std::string& family, const std::vector<float>& hidden) {
  const auto opened = Checkpoint::open(test::golden_dir(family));
  EXPECT_TRUE(opened.ok());
  std::ifstream file(test::golden_dir(family) / "config.json");
  const Json config = Json::parse(file);
  const bool tied = !opened->has("lm_head.weight");
  const std::vector<float> head = floats_of(*opened, tied ? "model.embed_tokens.weight" : "lm_head.weight");
  std::vector<float> bias;
  if (opened->has("lm_head.bias")) bias = floats_of(*opened, "lm_head.bias");
  const auto vocab = config["vocab_size"].get<size_t>();
  const size_t width = head.size() / vocab;
  const double scale = config.contains("logits_scaling") ? 1.0 / config["logits_scaling"].get<double>() : 1.0;
  const bool capped = config.contains("final_logit_softcapping") && !config["final_logit_softcapping"].is_null();
  const double cap = capped ? config["final_logit_softcapping"].get<double>() : 0.0;
  std::vector<float> logits;
  for (size_t row = 0; row < hidden.size() / width; ++row) {
    for (size_t token = 0; token < vocab; ++token) {
      double sum = bias.empty() ? 0.0 : bias[token];
      for (size_t i = 0; i < width; ++i) sum += static_cast<double>(hidden[row * width + i]) * head[token * width + i];
      sum *= scale;
      logits.push_back(static_cast<float>(capped ? cap * std::tanh(sum / cap) : sum));
    }
  }
  return logits;
}

class Embed : public testing::TestWithParam<const char*> {
 protected:
  static std::filesystem::path file(const char* recipe, const std::vector<int64_t>& prefill = {8, 32}) {
    return test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = recipe, .prefill = prefill});
  }
};

// There are more tokens than dimensions: no other hidden states give these logits.
TEST_P(Embed, TheCheckpointsHeadMakesHuggingFacesLogitsOfThem) {
  const auto prompt = test::golden_prompt(GetParam());
  const auto expected = test::read_npy(test::golden_dir(GetParam()) / "logits_40.npy").values;
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    SCOPED_TRACE(kernels->isa);
    const test::ScopedIsa isa(kernels->isa);
    const auto hidden = embed_file(file("fp32"), prompt);
    ASSERT_EQ(hidden.size() % prompt.size(), 0u);
    const double worst = test::worst_difference(apply_head(GetParam(), hidden), expected);
    EXPECT_LE(worst / test::standard_deviation(expected), 1e-4);
  }
}

TEST_P(Embed, LengthOfPrefillDoesNotChangeABit) {
  const auto prompt = test::golden_prompt(GetParam());
  for (const char* recipe : {"fp32", "w4", R"({"base": "w4", "activations": "int16"})"}) {
    EXPECT_EQ(embed_file(file(recipe, {}), prompt), embed_file(file(recipe), prompt)) << recipe;
  }
}

TEST_P(Embed, TheSessionGoesOnAsAfterScore) {
  const auto engine = test::load_engine(file("w4"));
  const auto prompt = test::golden_prompt(GetParam());
  const std::vector<int32_t> more = {5, 6, 7};
  const auto scored = test::new_session(*engine), embedded = test::new_session(*engine);
  test::score(*scored, prompt);
  const auto hidden = embed(*embedded, prompt);
  EXPECT_EQ(hidden.size(), prompt.size() * static_cast<size_t>(engine->hidden_size()));
  EXPECT_TRUE(std::ranges::equal(embedded->tokens(), prompt));
  EXPECT_EQ(test::score(*embedded, more), test::score(*scored, more));
  EXPECT_EQ(test::greedy(*embedded, more, 8), test::greedy(*scored, more, 8));
  ASSERT_TRUE(embedded->rewind(static_cast<int64_t>(prompt.size()) - 1).ok());
  const auto last = embed(*embedded, std::span(prompt).last(1));
  EXPECT_TRUE(std::ranges::equal(last, std::span(hidden).last(last.size())));
}

INSTANTIATE_TEST_SUITE_P(Families, Embed, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(EmbedCalls, FailLikeScore) {
  const auto engine = test::load_engine(test::compiled({.checkpoint = test::golden_dir("qwen3")}));
  const auto session = test::new_session(*engine);
  const std::vector<int32_t> tokens = {1, 2, 3}, outside = {1, 288};
  EXPECT_EQ(engine->hidden_size(), 64);
  EXPECT_EQ(session->embed(outside, {}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(session->embed(std::vector<int32_t>(65, 1), {}).error().code, ErrorCode::kResourceExhausted);
  session->cancel();
  EXPECT_EQ(session->embed(tokens, {}).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(session->tokens().empty());
  const auto fails = [](size_t, std::span<const float>) -> Status { throw 1; };
  EXPECT_EQ(session->embed(tokens, fails).error().code, ErrorCode::kInvalidArgument);
  const auto nested = [&](size_t, std::span<const float>) { return session->embed(tokens, {}); };
  EXPECT_EQ(session->embed(tokens, nested).error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(session->rewind(0).ok());
  EXPECT_TRUE(session->embed(tokens, {}).ok());
  EXPECT_EQ(session->tokens().size(), 3u);
}

TEST(EmbedFiles, OfFormatVersion1HaveHiddenStatesToo) {
  for (const char* name : {"v1.tdm", "v1_mixed.tdm"}) {
    const std::filesystem::path path = std::filesystem::path(TANDEM_SOURCE_DIR "/tests/data/artifact") / name;
    const std::vector<int32_t> tokens = {1, 2, 3};
    const auto rows = embed_file(path, tokens);
    EXPECT_EQ(rows.size(), tokens.size() * static_cast<size_t>(test::load_engine(path)->hidden_size()));
    EXPECT_GT(test::standard_deviation(rows), 0.0) << name;
  }
}

TEST(EmbedFiles, WithBinariesForADeviceKeepTheirOutputs) {
  const auto artifact = Artifact::open(TANDEM_SOURCE_DIR "/tests/data/artifact/npu.tdm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ASSERT_FALSE(artifact->header().shards.empty());
  EXPECT_EQ(with_hidden_output(artifact->program(0)).header(), artifact->program(0).header());
}

TEST(EmbedFiles, AreRefusedByNameIfTheirProgramGivesLogitsAlone) {
  const auto path = test::compiled({.checkpoint = test::golden_dir("qwen3")});
  const auto engine = LoadedEngine::load(path, {.threads = 1}, [&](const Artifact& program, ThreadPool& pool) {
    static const Artifact plain = Artifact::open(program.path()).value();
    return load_methods(plain, pool, {}, Log());
  });
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_EQ((*engine)->hidden_size(), 0);
  const auto session = test::new_session(**engine);
  const std::vector<int32_t> tokens = {1, 2, 3};
  const Status status = session->embed(tokens, {});
  EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(status.error().message.find("no hidden states"), std::string::npos) << status.error().message;
  EXPECT_TRUE(session->tokens().empty());
  EXPECT_EQ(test::score(*session, tokens), test::score_file(path, tokens));  // The new output changes no bit.
}

}  // namespace embed_test
}  // namespace tandem
