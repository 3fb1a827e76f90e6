// Greedy decoding without logits in memory: the tokens always equal those from whole rows of logits.
#include <gtest/gtest.h>

#include <cstring>

#include "backends/cpu/execute/program.h"
#include "backends/cpu/kernels/kernels.h"
#include "base/try.h"
#include "generation/sampler.h"
#include "runtime/loaded_engine.h"
#include "runtime/token_runner.h"
#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"

namespace tandem {
namespace greedy_test {

// What a program was asked for.
struct Asked {
  int64_t argmax = 0;  // Calls for the argmax alone,
  int64_t logits = 0;  // for logits,
  int64_t neither = 0;
  int64_t written = 0;  // and those of the first kind that wrote logits anyway.
};

class WatchedContext final : public ExecutionContext {
 public:
  WatchedContext(std::unique_ptr<ExecutionContext> inner, const Program& program, Asked& asked)
      : inner_(std::move(inner)), program_(program), asked_(asked) {}

  Status run(size_t method, const Bindings& bindings) override {
    if (bindings.argmax == nullptr) {
      ++(bindings.rows > 0 ? asked_.logits : asked_.neither);
      return inner_->run(method, bindings);
    }
    ++asked_.argmax;
    const ir::Graph& graph = program_.method(method);
    const ir::TensorId id = *graph.find("logits");
    auto* logits = static_cast<uint8_t*>(bindings.data[static_cast<size_t>(id)]);
    const size_t bytes = tensor_bytes(graph.at(id));
    std::memset(logits, 0xa5, bytes);
    TANDEM_TRY(inner_->run(method, bindings));
    if (std::count(logits, logits + bytes, 0xa5) != static_cast<std::ptrdiff_t>(bytes)) ++asked_.written;
    return ok_status();
  }

 private:
  std::unique_ptr<ExecutionContext> inner_;
  const Program& program_;
  Asked& asked_;
};

// The CPU's program, with or without the short cut.
class WatchedProgram final : public Program {
 public:
  WatchedProgram(std::unique_ptr<Program> inner, bool picks, Asked& asked)
      : inner_(std::move(inner)), computes_argmax_(picks), asked_(asked) {}
  size_t method_count() const override { return inner_->method_count(); }
  const ir::Graph& method(size_t index) const override { return inner_->method(index); }
  bool computes_argmax(size_t index) const override { return computes_argmax_ && inner_->computes_argmax(index); }
  Result<std::unique_ptr<ExecutionContext>> new_context() override {
    TANDEM_ASSIGN(auto context, inner_->new_context());
    return std::unique_ptr<ExecutionContext>(std::make_unique<WatchedContext>(std::move(context), *inner_, asked_));
  }

 private:
  std::unique_ptr<Program> inner_;
  bool computes_argmax_;
  Asked& asked_;
};

// `asked` must outlive the engine.
std::shared_ptr<LoadedEngine> load(const std::filesystem::path& path, int threads, bool picks, Asked& asked) {
  auto engine = LoadedEngine::load(
      path, {.threads = threads, .verify = VerifyWeights::kNever},
      [&](const Artifact& artifact, ThreadPool& pool) -> Result<std::unique_ptr<Program>> {
        TANDEM_ASSIGN(auto program, cpu::load_program(artifact, pool));
        return std::unique_ptr<Program>(std::make_unique<WatchedProgram>(std::move(program), picks, asked));
      });
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return engine.ok() ? *engine : nullptr;
}

std::vector<int32_t> greedy(const std::filesystem::path& path, int threads, bool picks, Asked& asked,
                            std::span<const int32_t> prompt, int64_t count) {
  const auto engine = load(path, threads, picks, asked);
  if (engine == nullptr) return {};
  return test::greedy(*test::new_session(*engine), prompt, count);
}

constexpr const char* kRecipes[] = {"fp32",
                                    "w8",
                                    "w4",
                                    R"({"base": "w4", "activations": "int16"})",
                                    R"({"base": "w8", "logits": "u16"})",
                                    R"({"base": "fp16", "logits": "f16"})"};

class GreedyOnCpu : public testing::TestWithParam<const char*> {};

TEST_P(GreedyOnCpu, TokensAreThoseOfWholeLogits) {
  const auto prompt = test::golden_prompt(GetParam());
  constexpr int64_t kCount = 12;
  for (const char* recipe : kRecipes) {
    const auto path = test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = recipe});
    for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
      SCOPED_TRACE(std::string(kernels->isa) + " " + recipe);
      const test::ScopedIsa isa(kernels->isa);
      Asked full, short_cut;
      const auto expected = greedy(path, 1, false, full, prompt, kCount);
      ASSERT_EQ(static_cast<int64_t>(expected.size()), kCount);
      EXPECT_EQ(full.argmax, 0);
      EXPECT_EQ(full.logits, kCount);
      for (const int threads : {1, 2}) {
        short_cut = {};
        EXPECT_EQ(greedy(path, threads, true, short_cut, prompt, kCount), expected) << threads;
        EXPECT_EQ(short_cut.argmax, kCount);
        EXPECT_EQ(short_cut.logits, 0);
        EXPECT_EQ(short_cut.neither, full.neither);
        EXPECT_EQ(short_cut.written, 0) << "logits were written though nobody reads them";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, GreedyOnCpu, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

// Whatever needs more than the argmax gets all logits.
TEST(Greedy, OthersGetWholeLogits) {
  const auto path = test::compiled({.checkpoint = test::golden_dir("qwen3")});
  const auto prompt = test::golden_prompt("qwen3");
  Asked asked;
  const auto engine = load(path, 2, true, asked);
  const auto session = test::new_session(*engine);
  const auto tokens = [&](const SamplerOptions& sampler) {
    GenerateOptions options;
    options.max_new_tokens = 6;
    options.ignore_eos = true;
    options.sampler = sampler;
    asked = {};
    const auto result = session->generate_from(prompt, options, {});
    EXPECT_TRUE(result.ok());
    return result.ok() ? result->tokens : std::vector<int32_t>{};
  };
  const auto first = tokens({.top_k = 3, .top_p = 0.5f, .seed = 7});  // Filters have no effect at temperature 0.
  EXPECT_EQ(asked.argmax, 6);
  EXPECT_EQ(asked.logits, 0);
  for (const SamplerOptions& sampler : {SamplerOptions{.temperature = 0.7f}, SamplerOptions{.repetition_penalty = 1.3f},
                                        SamplerOptions{.temperature = 1e-6f, .top_k = 1}}) {
    tokens(sampler);
    EXPECT_EQ(asked.argmax, 0);
    EXPECT_EQ(asked.logits, 6);
  }
  // A call's request does not affect the next call.
  EXPECT_EQ(tokens({}), first);
  EXPECT_EQ(asked.argmax, 6);
  asked = {};
  ASSERT_TRUE(session->rewind(0).ok());
  EXPECT_EQ(test::score(*session, prompt).size(), prompt.size() * static_cast<size_t>(engine->vocab_size()));
  EXPECT_EQ(asked.argmax, 0);
}

// A vocabulary that is split into many tasks, each of several pieces, and does not fill its last panel.
constexpr int64_t kVocabulary = 8205, kWidth = 64;

class LargeVocabulary : public testing::Test {
 protected:
  // A checkpoint with this LM head and any embedding.
  std::filesystem::path checkpoint(const std::vector<float>& head) {
    const auto to = folder_.path() / std::to_string(made_++);
    test::copy_checkpoint(test::golden_dir("llama2"), to);
    Json config = Json::parse(std::ifstream(to / "config.json"));
    config["vocab_size"] = kVocabulary;
    test::write_file(to / "config.json", config.dump());
    const std::vector<int64_t> shape = {kVocabulary, kWidth};
    test::replace_tensor(to, "model.embed_tokens.weight", shape, random(1));
    test::replace_tensor(to, "lm_head.weight", shape, head);
    return to;
  }
  static std::vector<float> random(uint32_t state) {
    std::vector<float> values(static_cast<size_t>(kVocabulary * kWidth));
    for (float& v : values) {
      state = state * 1664525u + 1013904223u;
      v = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-33f;
    }
    return values;
  }
  static std::span<float> row(std::vector<float>& matrix, int64_t index) {
    return std::span(matrix).subspan(static_cast<size_t>(index * kWidth), static_cast<size_t>(kWidth));
  }
  // The compiler refuses NaN, so it is written into the file, over every weight that is kStandIn.
  std::filesystem::path with_nan(const std::vector<float>& head) {
    std::vector<uint8_t> file =
        test::read_file(test::compiled({.checkpoint = checkpoint(head), .recipe = "fp32", .prefill = {8}}));
    const float nan = std::numeric_limits<float>::quiet_NaN();
    for (size_t i = 0; i + sizeof(float) <= file.size(); i += sizeof(float)) {
      if (std::memcmp(&file[i], &kStandIn, sizeof(float)) == 0) std::memcpy(&file[i], &nan, sizeof(float));
    }
    test::write_file(folder_ / "nan.tdm", file);
    return folder_ / "nan.tdm";
  }
  // The logits after the prompt.
  static std::vector<float> logits(const std::filesystem::path& path) {
    Asked asked;
    const auto all = test::score(*test::new_session(*load(path, 2, false, asked)), kPrompt);
    return {all.end() - kVocabulary, all.end()};
  }
  // For every instruction set and number of threads, the first token that both ways pick.
  static void expect_first(const std::filesystem::path& path, int32_t expected) {
    for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
      const test::ScopedIsa isa(kernels->isa);
      for (const int threads : {1, 2, 3}) {
        for (const bool picks : {false, true}) {
          Asked asked;
          EXPECT_EQ(greedy(path, threads, picks, asked, kPrompt, 1), std::vector{expected})
              << kernels->isa << ", " << threads << " threads, short cut: " << picks;
          EXPECT_EQ(asked.argmax, picks ? 1 : 0);
          EXPECT_EQ(asked.written, 0);
        }
      }
    }
  }

  // If no token can be picked, the error is the same with and without the short cut.
  static void expect_none(const std::filesystem::path& path) {
    std::string messages[2];
    for (const bool picks : {false, true}) {
      Asked asked;
      const auto engine = load(path, 2, picks, asked);
      const auto session = test::new_session(*engine);
      const auto result = session->generate(kPrompt, {}, {});
      ASSERT_FALSE(result.ok());
      EXPECT_EQ(asked.argmax, picks ? 1 : 0);
      EXPECT_TRUE(session->tokens().empty()) << "the session is not as it was";
      messages[picks ? 1 : 0] = result.error().message;
    }
    EXPECT_NE(messages[0].find("no token can be picked: all 8205 logits"), std::string::npos) << messages[0];
    EXPECT_EQ(messages[0], messages[1]);
  }

  static constexpr float kStandIn = 12345.678f;
  static inline const std::vector<int32_t> kPrompt = {5, 17, 4000, 23, 8204};
  test::TempFolder folder_;
  int made_ = 0;
};

TEST_F(LargeVocabulary, TheFirstOfEqualLogitsWins) {
  std::vector<float> head = random(2);
  for (const char* recipe : {"fp32", "w4"}) {
    SCOPED_TRACE(recipe);
    const auto before = logits(test::compiled({.checkpoint = checkpoint(head), .recipe = recipe, .prefill = {8}}));
    const auto highest = std::ranges::max_element(before) - before.begin();
    // In the last panel, the panels beside the middle, where a task ends; in one piece and in one task; far apart.
    for (const std::vector<int64_t>& tied_tokens : std::vector<std::vector<int64_t>>{
             {8204, 8203}, {4095, 4096}, {511, 512}, {513, 512, 8200}, {7, 6}, {0, 8204}, {8204, 4096, 2048, 1030}}) {
      std::vector<float> tied = head;
      std::ranges::fill(row(tied, highest), 0.0f);  // Copies of it at those tokens, and only there.
      for (const int64_t token : tied_tokens) std::ranges::copy(row(head, highest), row(tied, token).begin());
      const auto path = test::compiled({.checkpoint = checkpoint(tied), .recipe = recipe, .prefill = {8}});
      const auto after = logits(path);
      const float largest = *std::ranges::max_element(after);
      ASSERT_EQ(largest, before[static_cast<size_t>(highest)]);
      ASSERT_EQ(std::ranges::count(after, largest), static_cast<std::ptrdiff_t>(tied_tokens.size()))
          << "they do not tie";
      expect_first(path, static_cast<int32_t>(std::ranges::min(tied_tokens)));
    }
  }
}

// Which task ends first is random and must not matter: with all logits equal, every task has a maximum.
TEST_F(LargeVocabulary, TheOrderOfTasksDoesNotMatter) {
  const std::vector<float> zeros(static_cast<size_t>(kVocabulary * kWidth), 0.0f);
  const auto path = test::compiled({.checkpoint = checkpoint(zeros), .recipe = "fp32", .prefill = {8}});
  Asked asked;
  const auto engine = load(path, 3, true, asked);
  const auto session = test::new_session(*engine);
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(session->rewind(0).ok());
    ASSERT_EQ(test::greedy(*session, std::span(kPrompt).first(1), 1), std::vector<int32_t>{0}) << i;
  }
  EXPECT_EQ(asked.argmax, 500);
}

// Logits that differ, but not once they are rounded to what the output holds, are equal.
TEST_F(LargeVocabulary, RoundedLogitsTie) {
  std::vector<float> head = random(5);
  const auto spec = [&](const char* recipe) {
    return test::CompileSpec{.checkpoint = checkpoint(head), .recipe = recipe, .prefill = {8}};
  };
  const auto before = logits(test::compiled(spec("fp32")));
  const auto highest = std::ranges::max_element(before) - before.begin();
  const std::vector<float> winner(row(head, highest).begin(), row(head, highest).end());
  std::ranges::fill(row(head, highest), 0.0f);
  std::ranges::copy(winner, row(head, 3000).begin());
  std::ranges::transform(winner, row(head, 6000).begin(), [](float v) { return v * (1.0f + 0x1p-16f); });
  expect_first(test::compiled(spec("fp32")), 6000);
  const auto rounded = test::compiled(spec(R"({"base": "fp32", "logits": "f16"})"));
  const auto values = logits(rounded);
  ASSERT_EQ(values[3000], values[6000]);
  ASSERT_EQ(values[3000], std::ranges::max(values));
  expect_first(rounded, 3000);
}

TEST_F(LargeVocabulary, AllEqualGiveTheFirst) {
  const std::vector<float> zeros(static_cast<size_t>(kVocabulary * kWidth), 0.0f);
  expect_first(test::compiled({.checkpoint = checkpoint(zeros), .recipe = "fp32", .prefill = {8}}), 0);
}

TEST_F(LargeVocabulary, NaNNeverWins) {
  std::vector<float> head = random(3);
  for (int64_t i = 0; i < kVocabulary; ++i) {
    if (i % 1000 != 900) row(head, i)[7] = kStandIn;
  }
  const auto path = with_nan(head);
  const auto values = logits(path);
  ASSERT_EQ(std::ranges::count_if(values, [](float v) { return std::isnan(v); }), kVocabulary - 8);
  size_t expected = 900;
  for (size_t i = 900; i < values.size(); i += 1000) {
    if (values[i] > values[expected]) expected = i;
  }
  expect_first(path, static_cast<int32_t>(expected));
}

TEST_F(LargeVocabulary, NothingButNaNIsAnError) {
  const auto path = with_nan(std::vector<float>(static_cast<size_t>(kVocabulary * kWidth), kStandIn));
  ASSERT_TRUE(std::ranges::all_of(logits(path), [](float v) { return std::isnan(v); }));
  expect_none(path);
}

// One of the LM head's inputs is -infinity: the sign of the weight decides the logit, which is NaN if the weight is 0.
TEST_F(LargeVocabulary, InfiniteLogits) {
  constexpr size_t kColumn = 2;
  std::vector<float> norm = test::read_tensor(test::golden_dir("llama2"), "model.norm.weight");
  norm[kColumn] = 3e38f;
  std::vector<float> head = random(4);
  for (int64_t i = 0; i < kVocabulary; ++i) row(head, i)[kColumn] = i % 3 == 0 ? 0.0f : 1.0f;
  const auto file = [&] {
    const auto from = checkpoint(head);
    EXPECT_TRUE(test::overwrite_tensor(from, "model.norm.weight", norm));
    return test::compiled({.checkpoint = from, .recipe = "fp32", .prefill = {8}});
  };
  const auto nothing = file();
  const auto values = logits(nothing);
  ASSERT_TRUE(std::isnan(values[0]));
  ASSERT_EQ(values[1], -INFINITY);
  expect_none(nothing);
  for (const int64_t token : {8204, 4101, 4100}) row(head, token)[kColumn] = -1.0f;
  expect_first(file(), 4100);
}

// A back end without the short cut is never asked for the argmax, and the CPU refuses invalid requests.
TEST(Greedy, WrongRequestsAreErrors) {
  const auto path = test::compiled({.checkpoint = test::golden_dir("qwen3")});
  const std::atomic<bool> never{false};
  const std::vector<int32_t> prompt = {1, 2, 3};
  Asked asked;
  const auto without = load(path, 1, false, asked);
  auto runner = TokenRunner::create(without->program(), without->table());
  ASSERT_TRUE(runner.ok());
  EXPECT_FALSE(runner->computes_argmax());
  EXPECT_FALSE(runner->feed(prompt, TokenRunner::Logits::kArgmax, never, {}).ok());
  EXPECT_EQ(runner->position(), 0);

  const auto engine = load(path, 1, true, asked);
  auto memory = MethodMemory::allocate(engine->program());
  auto context = engine->program().new_context();
  ASSERT_TRUE(memory.ok() && context.ok());
  const size_t method = engine->table().methods().back().index;
  const ir::Graph& graph = engine->program().method(method);
  Bindings& bindings = memory->bindings(method);
  ir::fill_inputs(graph, *ir::MethodInputs::read(graph), {prompt, 0, false}, bindings);
  int32_t argmax = -7;
  bindings.argmax = &argmax;
  for (const int64_t rows : {0, 2, 3}) {
    bindings.rows = rows;
    EXPECT_FALSE((*context)->run(method, bindings).ok()) << rows;
    EXPECT_EQ(argmax, -7);
  }
  bindings.rows = 1;
  bindings.first_row = 2;
  EXPECT_TRUE((*context)->run(method, bindings).ok());
  EXPECT_GE(argmax, 0);
}

}  // namespace greedy_test
}  // namespace tandem
