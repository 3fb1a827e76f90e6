// Mistakes that an app may make: empty callbacks, callbacks that throw or re-enter, unchecked results.
#include <gtest/gtest.h>

#include <stdexcept>

#include "support/compiled_model.h"

namespace tandem {
namespace misuse_test {

const std::vector<Message> kStory = {{"user", "Tell me a story about a fox named Leo."}};

std::shared_ptr<Engine> demo_engine() {
  static const auto engine = test::load_engine(test::compiled({.checkpoint = test::demo_dir(), .context = 512}));
  return engine;
}

GenerateOptions twenty() {
  GenerateOptions options;
  options.max_new_tokens = 20;
  return options;
}

const std::vector<int32_t>& story() {
  static const std::vector<int32_t> tokens = [] {
    const auto result = test::new_session(*demo_engine())->generate_chat(kStory, twenty(), {});
    EXPECT_TRUE(result.ok());
    return result->tokens;
  }();
  return tokens;
}

std::vector<int32_t> prompt() { return *demo_engine()->encode_chat(kStory, true); }

void expect_works(Session& session) {
  const auto result = session.generate_chat(kStory, twenty(), {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tokens, story());
}

TEST(Misuse, ScoreWithoutACallbackComputesTheTokens) {
  const auto session = test::new_session(*demo_engine());
  const auto tokens = prompt();
  const auto most = std::span(tokens).first(tokens.size() - 1);
  ASSERT_TRUE(session->score(most, {}).ok());
  EXPECT_TRUE(std::ranges::equal(session->tokens(), most));
  const auto result = session->generate(std::span(tokens).last(1), twenty(), {});
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tokens, story());
  EXPECT_TRUE(session->score({}, {}).ok()) << "nothing to compute is nothing wrong";
}

TEST(Misuse, EmptyThingsAreErrorsOrNothing) {
  EXPECT_FALSE(Engine::load("").ok());
  const auto engine = demo_engine();
  EXPECT_TRUE(engine->encode({}, false)->empty());
  EXPECT_TRUE(engine->decode({}, true)->empty());
  EXPECT_FALSE(engine->render_chat(kStory, true, "no JSON").ok());
  const auto session = test::new_session(*engine);
  EXPECT_FALSE(session->generate({}, {}, {}).ok());
  EXPECT_FALSE(session->generate_from({}, {}, {}).ok());
  EXPECT_TRUE(session->rewind(0).ok());
  session->cancel();
  session->clear_cancel();
  expect_works(*session);
}

TEST(Misuse, AnEngineThatWasNotLoadedIsANullPointer) {
  const auto engine = Engine::load("/no such folder/no such file");
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(*engine, nullptr);
}

TEST(Misuse, ACallbackThatThrowsEndsTheCallAndNothingElse) {
  const auto session = test::new_session(*demo_engine());
  ASSERT_TRUE(session->score(std::vector<int32_t>{5, 6, 7}, {}).ok());
  for (const int last : {1, 3}) {
    int pieces = 0;
    const auto result = session->generate(prompt(), twenty(), [&](std::string_view) -> bool {
      if (++pieces == last) throw std::runtime_error("the window is closed");
      return true;
    });
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(result.error().message.find("the window is closed"), std::string::npos) << result.error().message;
    EXPECT_EQ(session->tokens().size(), 3u);
  }
  const auto odd = session->generate(prompt(), twenty(), [](std::string_view) -> bool { throw 7; });
  EXPECT_EQ(odd.error().code, ErrorCode::kInvalidArgument);
  const auto full = session->generate(prompt(), twenty(), [](std::string_view) -> bool { throw std::bad_alloc(); });
  EXPECT_EQ(full.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(session->tokens().size(), 3u);
  expect_works(*session);
}

TEST(Misuse, ARowCallbackThatThrowsLeavesWhatWasComputed) {
  const auto session = test::new_session(*demo_engine());
  const auto tokens = prompt();
  int rows = 0;
  const Status status = session->score(tokens, [&](size_t, std::span<const float>) -> Status {
    if (++rows == 2) throw std::runtime_error("no");
    return ok_status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  const auto held = session->tokens();
  ASSERT_GT(held.size(), 0u);
  EXPECT_TRUE(std::equal(held.begin(), held.end(), tokens.begin()));
  const auto result = session->generate_from(tokens, twenty(), {});
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tokens, story());
}

TEST(Misuse, CallsFromACallbackAreRefused) {
  const auto session = test::new_session(*demo_engine());
  int pieces = 0;
  const auto result = session->generate_chat(kStory, twenty(), [&](std::string_view) {
    ++pieces;
    EXPECT_EQ(session->rewind(0).error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(session->score(std::vector<int32_t>{1}, {}).ok());
    EXPECT_FALSE(session->generate(std::vector<int32_t>{1}, {}, {}).ok());
    EXPECT_FALSE(session->generate_chat(kStory, {}, {}).ok());
    EXPECT_GT(session->tokens().size(), 0u);
    return true;
  });
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(result->tokens, story());
  EXPECT_GT(pieces, 3);
  const auto tokens = prompt();
  ASSERT_TRUE(session->rewind(0).ok());
  const Status scored = session->score(tokens, [&](size_t, std::span<const float>) {
    EXPECT_FALSE(session->rewind(0).ok());
    return ok_status();
  });
  EXPECT_TRUE(scored.ok());
  EXPECT_EQ(session->tokens().size(), tokens.size());
  // Another session of the same engine is free.
  const auto other = test::new_session(*demo_engine());
  bool asked = false;
  const auto outer = session->generate_chat(kStory, twenty(), [&](std::string_view) {
    if (!std::exchange(asked, true)) expect_works(*other);
    return true;
  });
  ASSERT_TRUE(outer.ok());
  EXPECT_EQ(outer->tokens, story());
}

}  // namespace misuse_test
}  // namespace tandem
