// What a session does besides computing: endings, stops, cancelling, errors, rewinding.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>

#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
#include "unicode/utf8.h"

namespace tandem {
namespace session_test {

using Clock = std::chrono::steady_clock;

std::shared_ptr<Engine> demo_engine() {
  static const auto engine = test::load_engine(test::compiled({.checkpoint = test::demo_dir(), .context = 512}));
  return engine;
}

const std::vector<Message> kStory = {{"user", "Tell me a story about a fox named Leo."}};

GenerateResult must(Result<GenerateResult> result) {
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? *std::move(result) : GenerateResult{};
}

// The whole story, greedily; the same every time.
const GenerateResult& whole_story() {
  static const GenerateResult result = must(test::new_session(*demo_engine())->generate_chat(kStory, {}, {}));
  return result;
}

std::vector<int32_t> story_prompt() { return *demo_engine()->encode_chat(kStory, true); }

TEST(Session, EndsAtAnEndOfTextToken) {
  const GenerateResult& story = whole_story();
  EXPECT_EQ(story.finish, FinishReason::kStop);
  EXPECT_GT(story.tokens.size(), 50u);
  EXPECT_TRUE(story.stop_string.empty());
  EXPECT_EQ(story.text, *demo_engine()->decode(story.tokens, true));
  EXPECT_NE(story.text.find("Leo"), std::string::npos);
  const auto eos = demo_engine()->eos_tokens();
  for (const int32_t token : story.tokens) EXPECT_EQ(std::ranges::count(eos, token), 0);
  EXPECT_EQ(story.prompt_tokens, static_cast<int64_t>(story_prompt().size()));
  EXPECT_EQ(story.reused_tokens, 0);
  EXPECT_GT(story.prompt_seconds, 0.0);
  EXPECT_GE(story.first_token_seconds, story.prompt_seconds);
  EXPECT_GT(story.decode_seconds, 0.0);
}

TEST(Session, GoesOnAfterEndOfTextIfAsked) {
  GenerateOptions options;
  options.ignore_eos = true;
  options.max_new_tokens = static_cast<int64_t>(whole_story().tokens.size()) + 5;
  const auto result = must(test::new_session(*demo_engine())->generate_chat(kStory, options, {}));
  EXPECT_EQ(result.finish, FinishReason::kLength);
  ASSERT_EQ(result.tokens.size(), whole_story().tokens.size() + 5);
  const auto eos = demo_engine()->eos_tokens();
  EXPECT_EQ(std::ranges::count(eos, result.tokens[whole_story().tokens.size()]), 1);
}

TEST(Session, EndsAfterMaxNewTokens) {
  for (const int64_t count : {1, 2, 17}) {
    GenerateOptions options;
    options.max_new_tokens = count;
    const auto session = test::new_session(*demo_engine());
    const auto result = must(session->generate_chat(kStory, options, {}));
    EXPECT_EQ(result.finish, FinishReason::kLength);
    ASSERT_EQ(static_cast<int64_t>(result.tokens.size()), count);
    EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole_story().tokens.begin()));
    // The last token was not computed: nothing follows it.
    EXPECT_EQ(session->tokens().size(), story_prompt().size() + static_cast<size_t>(count) - 1);
  }
}

TEST(Session, EndsAtAStopStringThatIsSplitOverTokens) {
  const std::string& text = whole_story().text;
  // From the middle of one word to the middle of another: at least three tokens.
  const size_t at = text.find(' ', text.size() / 2);
  ASSERT_NE(at, std::string::npos);
  const std::string stop = text.substr(at - 2, 9);
  const size_t first = text.find(stop);
  GenerateOptions options;
  options.stop_strings = {"never in a story", stop};
  std::string streamed;
  const auto result =
      must(test::new_session(*demo_engine())->generate_chat(kStory, options, [&](std::string_view piece) {
        streamed += piece;
        return true;
      }));
  EXPECT_EQ(result.finish, FinishReason::kStop);
  EXPECT_EQ(result.stop_string, stop);
  EXPECT_EQ(result.text, text.substr(0, first));
  EXPECT_EQ(streamed, result.text) << "a part of the stop string was shown";
}

TEST(Session, AStopStringThatNeverCompletesIsShown) {
  GenerateOptions options;
  options.stop_strings = {whole_story().text.substr(whole_story().text.size() - 6) + "x"};
  std::string streamed;
  const auto result =
      must(test::new_session(*demo_engine())->generate_chat(kStory, options, [&](std::string_view piece) {
        streamed += piece;
        return true;
      }));
  EXPECT_EQ(result.text, whole_story().text);
  EXPECT_EQ(streamed, whole_story().text);
}

TEST(Session, EndsWhenTheContextIsFull) {
  const auto path = test::compiled({.checkpoint = test::demo_dir(), .prefill = {8}, .context = 32});
  const auto engine = test::load_engine(path);
  EXPECT_EQ(engine->context(), 32);
  auto prompt = story_prompt();
  prompt.resize(30, prompt.back());
  GenerateOptions options;
  options.ignore_eos = true;
  const auto session = test::new_session(*engine);
  const auto result = must(session->generate(prompt, options, {}));
  EXPECT_EQ(result.finish, FinishReason::kContextFull);
  EXPECT_EQ(result.tokens.size(), 3u) << "two positions, and the token after the last of them";
  EXPECT_EQ(session->tokens().size(), 32u);
  // A full cache is an error; rewinding frees space.
  const auto more = session->generate(std::vector<int32_t>{5}, options, {});
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(more.error().code, ErrorCode::kResourceExhausted);
  EXPECT_NE(more.error().message.find("`context`"), std::string::npos);
  ASSERT_TRUE(session->rewind(30).ok());
  // The last token of the prompt again: the same logits, the same tokens.
  ASSERT_TRUE(session->rewind(29).ok());
  EXPECT_EQ(must(session->generate(std::span(prompt).last(1), options, {})).tokens, result.tokens);
  // A prompt of the whole context leaves space for one token.
  const auto full = test::new_session(*engine);
  prompt.resize(32, 7);
  EXPECT_EQ(must(full->generate(prompt, options, {})).tokens.size(), 1u);
}

TEST(Session, CanBeCancelledFromAnotherThread) {
  const auto session = test::new_session(*demo_engine());
  GenerateOptions options;
  options.ignore_eos = true;
  std::promise<void> started;
  bool first = true;
  std::thread other([&, from = started.get_future()]() mutable {
    from.wait();
    session->cancel();
  });
  const auto result = must(session->generate_chat(kStory, options, [&](std::string_view) {
    if (std::exchange(first, false)) started.set_value();
    return true;
  }));
  other.join();
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_LT(result.tokens.size(), 480u) << "it went on until the context was full";
  // Whether the last token is in the cache depends on when the request came.
  const size_t held = session->tokens().size() - story_prompt().size();
  EXPECT_TRUE(held == result.tokens.size() || held + 1 == result.tokens.size()) << held;
  // The session continues as if nothing had happened.
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
}

TEST(Session, CanBeCancelledInTheMiddleOfAPrompt) {
  const auto path = test::compiled({.checkpoint = test::demo_dir(), .prefill = {}, .context = 2048});
  const auto engine = test::load_engine(path, 1);
  const auto session = test::new_session(*engine);
  const std::vector<int32_t> prompt(2000, 404);
  ASSERT_TRUE(session->score(std::span(prompt).first(1), [](size_t, auto) { return ok_status(); }).ok());
  ASSERT_TRUE(session->rewind(0).ok());
  std::atomic<bool> done{false};
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    while (!done) session->cancel();
  });
  const auto result = must(session->generate(prompt, {}, {}));
  done = true;
  other.join();
  session->clear_cancel();  // It may have come again after the end.
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_TRUE(result.tokens.empty());
  EXPECT_LT(result.prompt_tokens, 2000);
  EXPECT_EQ(static_cast<int64_t>(session->tokens().size()), result.prompt_tokens);
  EXPECT_LT(result.decode_seconds, 10.0) << "time since the clock's beginning";
  // Earlier results are kept and reused.
  GenerateOptions options;
  options.max_new_tokens = 3;
  const auto shorter = std::span(prompt).first(session->tokens().size() + 2);
  const auto again = must(session->generate_from(shorter, options, {}));
  EXPECT_EQ(again.reused_tokens, result.prompt_tokens);
  EXPECT_EQ(again.tokens, must(test::new_session(*engine)->generate(shorter, options, {})).tokens);
}

TEST(Session, ACancelBeforeACallIsNotLost) {
  const auto session = test::new_session(*demo_engine());
  session->cancel();
  const auto stopped = must(session->generate_chat(kStory, {}, {}));
  EXPECT_EQ(stopped.finish, FinishReason::kCancelled);
  EXPECT_TRUE(stopped.tokens.empty());
  EXPECT_TRUE(session->tokens().empty());
  // The call took it.
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
  // score() takes it too; going back computes nothing and leaves it.
  session->cancel();
  ASSERT_TRUE(session->rewind(0).ok());
  const Status score = session->score(story_prompt(), {});
  ASSERT_FALSE(score.ok());
  EXPECT_EQ(score.error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(session->tokens().empty());
  session->cancel();
  session->clear_cancel();
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
}

TEST(Session, ACallThatFailsTakesTheRequestToo) {
  const auto session = test::new_session(*demo_engine());
  session->cancel();
  EXPECT_FALSE(session->generate({}, {}, {}).ok());
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
}

TEST(Session, ACallbackCanStop) {
  const auto session = test::new_session(*demo_engine());
  std::string streamed;
  int calls = 0;
  const auto result = must(session->generate_chat(kStory, {}, [&](std::string_view piece) {
    streamed += piece;
    return ++calls < 5;
  }));
  EXPECT_EQ(result.finish, FinishReason::kCancelled);
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(streamed, result.text);
  EXPECT_TRUE(whole_story().text.starts_with(streamed));
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
}

TEST(Session, ErrorsLeaveItAsItWas) {
  const auto session = test::new_session(*demo_engine());
  const auto prompt = story_prompt();
  GenerateOptions options;
  options.max_new_tokens = 10;
  const auto expected = must(test::new_session(*demo_engine())->generate(prompt, options, {})).tokens;
  ASSERT_TRUE(session->score(std::span(prompt).first(5), [](size_t, auto) { return ok_status(); }).ok());

  const auto fails = [&](const std::vector<int32_t>& tokens, const GenerateOptions& wrong, ErrorCode code) {
    const auto result = session->generate(tokens, wrong, {});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message;
    EXPECT_EQ(session->tokens().size(), 5u);
  };
  fails(std::vector<int32_t>(600, 3), options, ErrorCode::kResourceExhausted);
  fails({3, 4, -1}, options, ErrorCode::kInvalidArgument);
  fails({3, 2048}, options, ErrorCode::kInvalidArgument);
  fails({3, std::numeric_limits<int32_t>::max()}, options, ErrorCode::kInvalidArgument);
  fails({}, options, ErrorCode::kInvalidArgument);
  GenerateOptions wrong = options;
  wrong.sampler.temperature = -1.0f;
  fails(prompt, wrong, ErrorCode::kInvalidArgument);
  wrong = options;
  wrong.stop_strings = {""};
  fails(prompt, wrong, ErrorCode::kInvalidArgument);
  wrong = options;
  wrong.max_new_tokens = -1;
  fails(prompt, wrong, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(session->rewind(6).ok());
  EXPECT_FALSE(session->rewind(-1).ok());
  EXPECT_FALSE(session->generate_from({}, options, {}).ok());
  EXPECT_FALSE(session->generate_from(std::vector<int32_t>(513, 1), options, {}).ok());

  ASSERT_EQ(session->tokens().size(), 5u);
  const auto rest = std::span(prompt).subspan(5);
  EXPECT_EQ(must(session->generate(rest, options, {})).tokens, expected);
}

TEST(Session, AnErrorOfTheRowCallbackComesBack) {
  const auto session = test::new_session(*demo_engine());
  const auto prompt = story_prompt();
  int rows = 0;
  const Status status = session->score(prompt, [&](size_t, std::span<const float>) -> Status {
    if (++rows == 3) return Error{ErrorCode::kIo, "the disk is full"};
    return ok_status();
  });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "the disk is full");
  // The history is what the cache holds.
  const auto held = session->tokens();
  EXPECT_TRUE(std::equal(held.begin(), held.end(), prompt.begin()));
  const std::vector<int32_t> rest(prompt.begin() + static_cast<std::ptrdiff_t>(held.size()), prompt.end());
  GenerateOptions options;
  options.max_new_tokens = 8;
  const auto result =
      must(rest.empty() ? session->generate_from(prompt, options, {}) : session->generate(rest, options, {}));
  EXPECT_TRUE(std::equal(result.tokens.begin(), result.tokens.end(), whole_story().tokens.begin()));
}

// A model whose logits are NaN: there is nothing to pick, even after the prompt was computed.
TEST(Session, ABrokenModelIsAnErrorThatLeavesItAsItWas) {
  const test::TempFolder folder;
  test::copy_checkpoint(test::golden_dir("qwen3"), folder / "checkpoint");
  ASSERT_TRUE(test::overwrite_tensor(folder / "checkpoint", "model.norm.weight", std::vector<float>(64, 3e38f)));
  const auto path = folder / "broken.tdm";
  ASSERT_TRUE(compile(folder / "checkpoint", path, test::to_options({.checkpoint = {}, .recipe = "fp32"})).ok());
  const auto engine = test::load_engine(path);
  const auto session = test::new_session(*engine);
  ASSERT_TRUE(session->score(std::vector<int32_t>{1, 2}, [](size_t, auto) { return ok_status(); }).ok());
  const auto result = session->generate(std::vector<int32_t>{3, 4}, {}, {});
  ASSERT_FALSE(result.ok());
  EXPECT_FALSE(result.error().message.empty());
  EXPECT_EQ(session->tokens().size(), 2u);
}

TEST(Session, RewindsToAnyLength) {
  const auto prompt = story_prompt();
  const auto session = test::new_session(*demo_engine());
  const auto all = test::score(*session, prompt);
  const size_t width = all.size() / prompt.size();
  for (const size_t length : {prompt.size() - 1, size_t{7}, size_t{1}, size_t{0}}) {
    ASSERT_TRUE(session->rewind(static_cast<int64_t>(length)).ok());
    EXPECT_EQ(session->tokens().size(), length);
    // A different prompt in between must have no effect.
    (void)test::score(*session, std::vector<int32_t>{1000, 1001, 1002});
    ASSERT_TRUE(session->rewind(static_cast<int64_t>(length)).ok());
    const auto again = test::score(*session, std::span(prompt).subspan(length));
    EXPECT_TRUE(std::equal(again.begin(), again.end(), all.begin() + static_cast<std::ptrdiff_t>(length * width)));
  }
}

TEST(Session, SeedsReproduce) {
  GenerateOptions options = demo_engine()->default_options();
  EXPECT_GT(options.sampler.temperature, 0.0f) << "the demo's generation_config.json asks for sampling";
  options.max_new_tokens = 40;
  const auto with_seed = [&](uint64_t seed) {
    options.sampler.seed = seed;
    return must(test::new_session(*demo_engine())->generate_chat(kStory, options, {})).tokens;
  };
  const auto seven = with_seed(7);
  EXPECT_EQ(with_seed(7), seven);
  EXPECT_NE(with_seed(8), seven);
}

TEST(Session, TwoAtOnceGiveTheSameAsOneAfterTheOther) {
  const std::vector<Message> other = {{"user", "Write a story about Anna the turtle and Ben the otter."}};
  const auto expected = must(test::new_session(*demo_engine())->generate_chat(other, {}, {})).text;
  EXPECT_NE(expected, whole_story().text);
  const auto run = [](const std::vector<Message>& messages) {
    return must(test::new_session(*demo_engine())->generate_chat(messages, {}, {})).text;
  };
  for (int round = 0; round < 3; ++round) {
    auto a = std::async(std::launch::async, run, kStory);
    auto b = std::async(std::launch::async, run, other);
    EXPECT_EQ(a.get(), whole_story().text);
    EXPECT_EQ(b.get(), expected);
  }
}

TEST(Session, OutlivesTheCallersHandleOnTheEngine) {
  auto engine = test::load_engine(test::compiled({.checkpoint = test::demo_dir(), .context = 512}));
  const auto session = test::new_session(*engine);
  engine.reset();
  EXPECT_EQ(must(session->generate_chat(kStory, {}, {})).text, whole_story().text);
}

// At a high temperature the demo model also generates bytes of broken characters: pieces must still be whole characters
// and add up to the text.
TEST(Session, PiecesAreWholeCharacters) {
  GenerateOptions options;
  options.ignore_eos = true;
  options.max_new_tokens = 120;
  options.sampler.temperature = 20.0f;
  size_t beyond_ascii = 0;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    options.sampler.seed = seed;
    std::string sum;
    const auto result =
        must(test::new_session(*demo_engine())->generate_chat(kStory, options, [&](std::string_view piece) {
          EXPECT_FALSE(piece.empty());
          EXPECT_TRUE(is_valid_utf8(piece)) << "seed " << seed;
          for (const char c : piece) beyond_ascii += static_cast<unsigned char>(c) >= 0x80;
          sum += piece;
          return true;
        }));
    EXPECT_EQ(sum, result.text);
    EXPECT_EQ(result.text, *demo_engine()->decode(result.tokens, true));
  }
  EXPECT_GT(beyond_ascii, 0u) << "the test saw no character that could have been split";
}

}  // namespace session_test
}  // namespace tandem
