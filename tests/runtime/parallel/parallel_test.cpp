// One engine, many threads: `make test-tsan` checks this for data races. Uses files that are stored with the tests, so
// that only the run time has to be compiled for it.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tandem/engine.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace parallel_test {

const std::vector<int32_t> kPrompt = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

std::shared_ptr<Engine> load(const char* name = "v1.tdm") {
  auto engine = Engine::load(std::filesystem::path(TANDEM_SOURCE_DIR "/tests/data/artifact") / name, {.threads = 3});
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return *engine;
}

GenerateOptions tokens(int64_t count) {
  GenerateOptions options;
  options.max_new_tokens = count;
  options.ignore_eos = true;
  return options;
}

std::vector<int32_t> generate(Engine& engine, const GenerateOptions& options) {
  auto session = engine.new_session();
  EXPECT_TRUE(session.ok());
  const auto result = (*session)->generate(kPrompt, options, {});
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result->tokens;
}

void run_in_threads(int count, const auto& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&work, i] { work(i); });
  for (std::thread& thread : threads) thread.join();
}

TEST(Parallel, SessionsOfOneEngineFromItsFirstCallOn) {
  ASSERT_TRUE(guard_file_mappings().ok());
  for (const char* name : {"v1.tdm", "v1_mixed.tdm"}) {
    GenerateOptions sampled = tokens(12);
    sampled.sampler.temperature = 0.8f;
    sampled.sampler.seed = 3;
    const auto greedy = generate(*load(name), tokens(12)), random = generate(*load(name), sampled);
    const auto engine = load(name);  // The first thread verifies the weights' checksums.
    run_in_threads(4, [&](int i) {
      for (int round = 0; round < 3; ++round) {
        EXPECT_EQ(generate(*engine, i % 2 == 0 ? tokens(12) : sampled), i % 2 == 0 ? greedy : random);
      }
    });
  }
}

TEST(Parallel, TextsOfOneEngine) {
  const auto engine = load();
  if (!engine->has_tokenizer()) GTEST_SKIP() << "the stored file has no tokenizer";
  const std::vector<Message> messages = {{"user", "a fox and 12 geese"}};
  const auto ids = *engine->encode(messages[0].content, false);
  const std::string text = *engine->decode(ids, true);
  run_in_threads(4, [&](int) {
    for (int round = 0; round < 20; ++round) {
      EXPECT_EQ(*engine->encode(messages[0].content, false), ids);
      EXPECT_EQ(*engine->decode(ids, true), text);
      EXPECT_EQ(engine->render_chat(messages, true).ok(), engine->render_chat(messages, false).ok());
    }
  });
}

TEST(Parallel, CancelledFromOtherThreads) {
  const auto engine = load();
  auto session = engine->new_session();
  ASSERT_TRUE(session.ok());
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done) (*session)->cancel();
    });
    const auto result = (*session)->generate_from(kPrompt, tokens(0), {});
    done = true;
    other.join();
    ASSERT_TRUE(result.ok()) << result.error().message;
  }
}

// Two callers of one session are a mistake in the app: one of them is refused, and nothing breaks.
TEST(Parallel, TwoCallersOfOneSession) {
  const auto engine = load();
  const auto wanted = generate(*engine, tokens(8));
  auto session = engine->new_session();
  ASSERT_TRUE(session.ok());
  run_in_threads(3, [&](int) {
    for (int round = 0; round < 10; ++round) {
      const auto result = (*session)->generate_from(kPrompt, tokens(8), {});
      if (result.ok()) {
        EXPECT_EQ(result->tokens, wanted);
      } else {
        EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
      }
    }
  });
  EXPECT_EQ((*session)->generate_from(kPrompt, tokens(8), {})->tokens, wanted);
}

TEST(Parallel, EnginesComeAndGo) {
  const auto wanted = generate(*load(), tokens(4));
  run_in_threads(3, [&](int) {
    for (int round = 0; round < 5; ++round) EXPECT_EQ(generate(*load(), tokens(4)), wanted);
  });
}

}  // namespace parallel_test
}  // namespace tandem
