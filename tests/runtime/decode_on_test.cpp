// Prompts on one program of a file and single tokens on another: rows of the KV cache are handed over.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "artifact/reader.h"
#include "runtime/kv_transfer.h"
#include "runtime/loaded_engine.h"
#include "support/compiled_model.h"
#include "tandem/probe.h"

namespace tandem {
namespace decode_on_test {

struct Form {
  const char* name;
  const char* recipe;
  const char* kv;
  double least_db;  // Of logits, against those of the program for prompts alone.
};

class DecodeOn : public testing::TestWithParam<Form> {
 protected:
  std::filesystem::path compile_for(const std::string& family = "llama2", int64_t context = 48) {
    CompileOptions options =
        test::to_options({.recipe = GetParam().recipe, .prefill = {8}, .context = context, .kv = GetParam().kv});
    options.target = "cpu,reference";
    const auto report = compile(test::golden_dir(family), folder_ / "both.tdm", options);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return folder_ / "both.tdm";
  }

  std::shared_ptr<Engine> load(const std::filesystem::path& file, const std::string& run_on,
                               const std::string& decode_on) {
    auto engine = Engine::load(file, {.threads = 2, .run_on = run_on, .decode_on = decode_on});
    EXPECT_TRUE(engine.ok()) << (engine.ok() ? "" : engine.error().message);
    return engine.ok() ? *engine : nullptr;
  }

  // A prompt, single tokens, going back, another prompt, single tokens: both take their turn twice.
  static std::vector<float> conversation(Engine& engine) {
    const auto session = test::new_session(engine);
    std::vector<float> rows;
    const auto score = [&](std::vector<int32_t> tokens) {
      const std::vector<float> more = test::score(*session, tokens);
      rows.insert(rows.end(), more.begin(), more.end());
    };
    score({1, 5, 9, 30, 20, 7, 11, 12, 13, 3, 4});
    for (const int32_t token : {8, 2, 17, 40}) score({token});
    EXPECT_TRUE(session->rewind(13).ok());
    score({21, 22});
    score({23});
    EXPECT_TRUE(session->rewind(5).ok());
    score({33});
    score({6, 6, 6, 1, 2, 3, 4, 5, 6, 7});
    score({19});
    EXPECT_EQ(session->tokens().size(), 17u);
    return rows;
  }

  const test::TempFolder folder_;
};

TEST_P(DecodeOn, ContinuesWhatTheOtherProgramBegan) {
  const auto file = compile_for();
  for (const auto& [prompts, tokens] : {std::pair("cpu", "reference"), std::pair("reference", "cpu")}) {
    SCOPED_TRACE(std::string(prompts) + ", then " + tokens);
    const auto alone = load(file, prompts, ""), together = load(file, prompts, tokens);
    ASSERT_TRUE(alone != nullptr && together != nullptr);
    const double db = test::sqnr_db(conversation(*alone), conversation(*together));
    std::printf("[ measured ] %s, then %s: %.1f dB\n", prompts, tokens, db);
    EXPECT_GE(db, GetParam().least_db);
    const std::vector<int32_t> prompt = {1, 5, 9, 30, 20, 7};
    EXPECT_EQ(test::greedy(*test::new_session(*together), prompt, 8).size(), 8u);
  }
}

TEST_P(DecodeOn, RowsComeBackAsTheyWere) {
  const auto file = compile_for();
  const auto one = LoadedEngine::load(file, {.threads = 2, .run_on = "cpu", .decode_on = "reference"});
  ASSERT_TRUE(one.ok()) << one.error().message;
  LoadedEngine& engine = **one;
  const LoadedEngine::DecodeProgram* decode = engine.decode_program();
  ASSERT_NE(decode, nullptr);
  auto first = MethodMemory::allocate(engine.program()), second = MethodMemory::allocate(*decode->program),
       third = MethodMemory::allocate(engine.program());
  ASSERT_TRUE(first.ok() && second.ok() && third.ok());
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0.0f, 2.0f);
  for (auto& [name, state] : first->states()) {
    if (name.ends_with(".scales")) continue;
    float* scales = nullptr;
    if (const auto it = first->states().find(name + ".scales"); it != first->states().end()) {
      scales = reinterpret_cast<float*>(it->second.memory.get());
    }
    std::vector<float> row(static_cast<size_t>(state.tensor.shape.back()));
    for (int64_t head = 0; head < state.tensor.shape[0]; ++head) {
      for (int64_t slot = 3; slot < 20; ++slot) {
        for (float& x : row) x = normal(random);
        engine.program().store_cache_row({&state.tensor, state.memory.get(), scales}, head, slot, row.data());
      }
    }
  }
  decode->from_prompt.copy(*first, *second, 3, 20, engine.pool());
  decode->to_prompt.copy(*second, *third, 3, 20, engine.pool());
  for (const auto& [name, state] : first->states()) {
    const auto& back = third->states().at(name);
    if (state.tensor.dtype != DType::kU8 && !name.ends_with(".scales")) {
      EXPECT_EQ(std::memcmp(state.memory.get(), back.memory.get(), state.bytes), 0) << name;
      continue;
    }
    // Scales and bytes are found again from the values, and may be off by a rounding.
    for (uint64_t i = 0; state.tensor.dtype == DType::kU8 && i < state.bytes; ++i) {
      ASSERT_LE(std::abs(int{state.memory.get()[i]} - int{back.memory.get()[i]}), 1) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Forms, DecodeOn,
    testing::Values(Form{"fp32", "fp32", "fp32", 100}, Form{"fp16_cache", "w8", "fp16", 100},
                    // A key between two u8 values may be rounded to either: the back ends' sums differ in the last bit.
                    Form{"u8_cache", "w8", "u8", 40}),
    [](const auto& test) { return std::string(test.param.name); });

class DecodeOnErrors : public DecodeOn {};
INSTANTIATE_TEST_SUITE_P(Once, DecodeOnErrors, testing::Values(Form{"w8", "w8", "fp16", 0}));

TEST_P(DecodeOnErrors, GreedyTokensThatNeedNoRoundingAreTheSame) {
  CompileOptions options = test::to_options({.recipe = "fp32", .prefill = {8}, .context = 64, .kv = "fp32"});
  options.target = "cpu,reference";
  ASSERT_TRUE(compile(test::demo_dir(), folder_ / "demo.tdm", options).ok());
  const std::vector<int32_t> prompt = {1, 5, 9, 300, 20, 7, 1000, 33, 21};
  const auto alone = load(folder_ / "demo.tdm", "cpu", ""), together = load(folder_ / "demo.tdm", "cpu", "reference");
  EXPECT_EQ(test::greedy(*test::new_session(*together), prompt, 12),
            test::greedy(*test::new_session(*alone), prompt, 12));
}

TEST_P(DecodeOnErrors, NamesThatMakeNoSense) {
  const auto file = compile_for();
  const auto unknown = Engine::load(file, {.decode_on = "sm8750"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("`decode_on`"), std::string::npos) << unknown.error().message;
  EXPECT_FALSE(probe(file, {.decode_on = "sm8750"}).ok());
  EXPECT_EQ(probe(file, {.run_on = "cpu", .decode_on = "reference"})->backends.size(), 2u);
  // The same program has nothing to hand over.
  const auto same = LoadedEngine::load(file, {.decode_on = "cpu"});
  ASSERT_TRUE(same.ok());
  EXPECT_EQ((*same)->decode_program(), nullptr);
}

TEST_P(DecodeOnErrors, CachesThatDropPositionsAreRefused) {
  const auto engine = Engine::load(compile_for("gemma3", 512), {.decode_on = "reference"});
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(engine.error().message.find("windows"), std::string::npos) << engine.error().message;
}

}  // namespace decode_on_test
}  // namespace tandem
