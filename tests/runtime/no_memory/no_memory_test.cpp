// Memory runs out at every single allocation of every public call: each time the call reports it or succeeds, and the
// same call on the same objects succeeds afterwards, with the same result.
#include <gtest/gtest.h>

#include "support/compiled_model.h"
#include "support/failing_memory.h"
#include "support/in_child.h"
#include "tandem/engine.h"

namespace tandem {
namespace no_memory_test {

using test::FailingMemory;

// The allocator does fail: a test that cannot fail proves nothing.
TEST(NoMemory, IsSeen) {
  bool thrown = false;
  {
    const FailingMemory failing(0, false);
    try {
      volatile int* p = new volatile int(1);
      delete p;
    } catch (const std::bad_alloc&) {
      thrown = true;
    }
  }
  EXPECT_TRUE(thrown);
  void* volatile p = nullptr;
  {
    const FailingMemory failing(1, true);
    std::free(std::malloc(8));
    p = std::malloc(8);
  }
  EXPECT_EQ(p, nullptr);
  std::free(p);
  EXPECT_GT(test::OwnFunctions("json_value7destroy").count(), 0u) << "what must not fail is not known";
}

const Status& status_of(const Status& status) { return status; }
template <typename T>
Status status_of(const Result<T>& result) {
  return result.status();
}

// Repeats the call, failing each of its allocations in turn: once that one alone, once with all later ones. `same`
// checks the results of calls that succeeded.
template <typename Call, typename Same>
void fail_everywhere(const char* what, const Call& call, const Same& same) {
  for (const bool all : {false, true}) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      ASSERT_LT(n, 1'000'000) << what;
      FailingMemory failing(n, all);
      auto result = call();
      failing.stop();
      failed = failing.has_failed();
      if (result.ok()) {
        ASSERT_TRUE(same(result)) << what << " gave something else when allocation " << n << " failed";
        continue;
      }
      const Status status = status_of(result);
      ASSERT_TRUE(failed) << what << ": " << status.error().message;
      ASSERT_EQ(status.error().code, ErrorCode::kResourceExhausted)
          << what << " at " << n << ": " << status.error().message;
      ASSERT_FALSE(status.error().message.empty());
      auto again = call();
      ASSERT_TRUE(again.ok()) << what << " after " << n << ": " << status_of(again).error().message;
      ASSERT_TRUE(same(again)) << what << " gave something else after allocation " << n << " had failed";
    }
    std::printf("%s: %lld allocations\n", what, static_cast<long long>(n - 1));
  }
}

const std::vector<Message>& conversation() {
  static const std::vector<Message> messages = {
      {"user", "Tell me a story about a fox named Leo.", R"({"more": [1, 2.5, {"deep": null}]})"}};
  return messages;
}

std::filesystem::path demo_file() {
  return test::compiled({.checkpoint = test::demo_dir(), .prefill = {8, 32}, .context = 128});
}

GenerateOptions few_tokens() {
  GenerateOptions options;
  options.max_new_tokens = 12;
  options.stop_strings = {"never in a story"};
  options.template_variables = R"({"enable_thinking": false})";
  options.sampler.temperature = 0.7f;
  options.sampler.top_k = 20;
  options.sampler.top_p = 0.9f;
  options.sampler.repetition_penalty = 1.1f;
  options.sampler.seed = 7;
  return options;
}

TEST(NoMemory, WhileLoading) {
  const auto path = demo_file();
  const auto tokens = *test::load_engine(path)->encode("a fox", false);
  fail_everywhere(
      "Engine::load", [&] { return Engine::load(path, {.threads = 2}); },
      [&](const auto& engine) { return *(*engine)->encode("a fox", false) == tokens; });
}

TEST(NoMemory, WhileASessionIsMade) {
  const auto engine = test::load_engine(demo_file());
  fail_everywhere(
      "new_session", [&] { return engine->new_session(); },
      [&](const auto& session) { return (*session)->tokens().empty(); });
}

TEST(NoMemory, WithTexts) {
  const auto engine = test::load_engine(demo_file());
  const auto& messages = conversation();
  const std::string text = *engine->render_chat(messages, true, R"({"tools": []})");
  const auto tokens = *engine->encode(text, true);
  const std::string back = *engine->decode(tokens, false);
  fail_everywhere(
      "render_chat", [&] { return engine->render_chat(messages, true, R"({"tools": []})"); },
      [&](const auto& result) { return *result == text; });
  const auto chat = *engine->encode_chat(messages, true);
  fail_everywhere(
      "encode_chat", [&] { return engine->encode_chat(messages, true); },
      [&](const auto& result) { return *result == chat; });
  fail_everywhere(
      "encode", [&] { return engine->encode(text, true); }, [&](const auto& result) { return *result == tokens; });
  fail_everywhere(
      "decode", [&] { return engine->decode(tokens, false); }, [&](const auto& result) { return *result == back; });
}

TEST(NoMemory, WhileGenerating) {
  const auto engine = test::load_engine(demo_file());
  const GenerateOptions options = few_tokens();
  const auto& messages = conversation();
  const auto wanted = test::new_session(*engine)->generate_chat(messages, options, {});
  ASSERT_TRUE(wanted.ok()) << wanted.error().message;
  const auto same = [&](const auto& result) {
    return result->tokens == wanted->tokens && result->text == wanted->text;
  };
  const auto session = test::new_session(*engine);
  std::string streamed;
  const StreamCallback callback = [&](std::string_view piece) {
    streamed += piece;
    return true;
  };
  fail_everywhere(
      "generate_chat", [&] { return session->generate_chat(messages, options, callback); }, same);
  const auto tokens = *engine->encode_chat(messages, true, options.template_variables);
  fail_everywhere(
      "generate_from", [&] { return session->generate_from(tokens, options, {}); }, same);
  ASSERT_TRUE(session->rewind(0).ok());
  fail_everywhere(
      "generate",
      [&] {
        const Status rewound = session->rewind(0);
        EXPECT_TRUE(rewound.ok());
        return session->generate(tokens, options, {});
      },
      same);
}

// The weights are verified at the first call of an engine, which may fail and be retried.
TEST(NoMemory, AtTheFirstToken) {
  const auto path = demo_file();
  const std::vector<int32_t> prompt = {5, 6, 7, 8};
  const auto wanted = test::greedy(*test::new_session(*test::load_engine(path)), prompt, 4);
  for (const bool all : {false, true}) {
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
      const auto engine = test::load_engine(path);
      const auto session = test::new_session(*engine);
      FailingMemory failing(n, all);
      const Status status = session->score(prompt, {});
      failing.stop();
      failed = failing.has_failed();
      if (!status.ok()) {
        ASSERT_EQ(status.error().code, ErrorCode::kResourceExhausted) << status.error().message;
      }
      ASSERT_TRUE(session->rewind(0).ok());
      ASSERT_EQ(test::greedy(*session, prompt, 4), wanted);
    }
  }
}

TEST(NoMemory, WhileScoringAndGoingBack) {
  const auto engine = test::load_engine(demo_file());
  const std::vector<int32_t> prompt = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  const auto rows = test::score(*test::new_session(*engine), prompt);
  const auto session = test::new_session(*engine);
  std::vector<float> got;
  got.reserve(rows.size());
  fail_everywhere(
      "score",
      [&] {
        EXPECT_TRUE(session->rewind(0).ok());
        got.clear();
        return session->score(prompt, [&](size_t, std::span<const float> logits) {
          got.insert(got.end(), logits.begin(), logits.end());
          return ok_status();
        });
      },
      [&](const Status&) { return got == rows; });
  fail_everywhere(
      "rewind", [&] { return session->rewind(3); }, [&](const Status&) { return session->tokens().size() == 3; });
  // An error needs memory for its message.
  for (int64_t n = 0; n < 8; ++n) {
    const FailingMemory failing(n, true);
    EXPECT_FALSE(session->rewind(1000).ok());
    EXPECT_FALSE(session->generate({}, {}, {}).ok());
  }
}

// Layers with a window recompute their cache after a long rewind.
TEST(NoMemory, WhileACacheIsComputedAnew) {
  const auto path = test::compiled({.checkpoint = test::golden_dir("gemma2"), .recipe = "fp32", .context = 64});
  const auto engine = test::load_engine(path);
  std::vector<int32_t> prompt(60);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(3 + i % 40);
  const auto wanted = test::greedy(*test::new_session(*engine), std::span(prompt).first(50), 4);
  for (const bool all : {false, true}) {
    bool failed = true;
    for (int64_t n = 0; failed; ++n) {
      const auto session = test::new_session(*engine);
      ASSERT_TRUE(session->score(prompt, {}).ok());
      GenerateOptions options;
      options.max_new_tokens = 4;
      options.ignore_eos = true;
      FailingMemory failing(n, all);
      const auto result = session->generate_from(std::span(prompt).first(50), options, {});
      failing.stop();
      failed = failing.has_failed();
      const auto again = session->generate_from(std::span(prompt).first(50), options, {});
      ASSERT_TRUE(again.ok()) << again.error().message;
      ASSERT_EQ(again->tokens, wanted) << n;
      if (result.ok()) {
        ASSERT_EQ(result->tokens, wanted) << n;
      }
    }
  }
}

int64_t allocations_of(const auto& work) {
  constexpr int64_t kMany = int64_t{1} << 40;
  const FailingMemory counting(kMany, false);
  work();
  return kMany - test::g_allocations_left;
}

// A sample of the allocations of a compile, each in a separate process.
TEST(NoMemory, WhileCompiling) {
  const test::TempFolder folder;
  const auto checkpoint = test::golden_dir("qwen3");
  const CompileOptions options = test::to_options({.checkpoint = {}, .recipe = "w4"});
  const auto wanted_path = folder / "wanted.tdm", path = folder / "out.tdm";
  ASSERT_TRUE(compile(checkpoint, wanted_path, options).ok());
  const auto wanted = test::read_file(wanted_path);
  const int64_t count = allocations_of([&] { EXPECT_TRUE(compile(checkpoint, wanted_path, options).ok()); });
  std::printf("compile: %lld allocations\n", static_cast<long long>(count));
  std::map<std::string, int> ends;
  for (int64_t n = 0; n < count; n += std::max<int64_t>(count / 100, 1)) {
    ++ends[test::in_child([&] {
      FailingMemory failing(n, false);
      const auto report = compile(checkpoint, path, options);
      failing.stop();
      // A folder that cannot be listed for lack of memory is reported as one that cannot be listed.
      const ErrorCode code = report.error().code;
      if (!report.ok() && code != ErrorCode::kResourceExhausted && code != ErrorCode::kIo) {
        std::fprintf(stderr, "%lld: %s\n", static_cast<long long>(n), report.error().message.c_str());
        return 1;
      }
      const auto again = compile(checkpoint, path, options);
      if (!again.ok()) std::fprintf(stderr, "again: %s\n", again.error().message.c_str());
      if (!again.ok() || test::read_file(path) != wanted) return 2;
      return 0;
    })];
  }
  EXPECT_EQ(ends.size(), 1u);
  for (const auto& [end, times] : ends) EXPECT_EQ(end, "0") << times << " times";
}

}  // namespace no_memory_test
}  // namespace tandem
